"""Calls modules of the program, in the virtual environment, before and after `pulumi up`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolchain.operating import environment
from toolchain.steps import SetupError, say
from toolchain.tools import venv


def build_image(variables: Mapping[str, str], stack: str) -> None:
    """Build the trainer image of `stack` in the engine, where it is not there. Raises SetupError."""
    _show(_run(variables, "infra.image.engine_image", stack))


def fetch(variables: Mapping[str, str], stack: str) -> None:
    """Download the registry's image where `stack` needs one. Raises SetupError."""
    _show(_run(variables, "infra.prefetch", stack))


def release_volumes(variables: Mapping[str, str], stack: str, own: list[str]) -> None:
    """Free volumes that a deletion has left half way. Raises SetupError where somebody else's pod holds one.

    Parameters:
        own: titles of the stack's own objects.
    """
    _show(_run(variables, "infra.release_volumes", stack, stdin=json.dumps(own)))


def inspect(variables: Mapping[str, str], stack: str, outputs: Mapping[str, Any]) -> None:
    """Raises SetupError where objects of `stack` are missing or on their way out, or its model is not its run's."""
    about = "`pulumi up` has ended, and the stack is not whole:\n"
    _show(_run(variables, "infra.inspection", stack, stdin=json.dumps(outputs), about=about))


def dependents(variables: Mapping[str, str], stack: str, own: list[str]) -> dict[str, Any]:
    """Others' objects that depend on what `stack` has made: `jobs`, and by namespace and claim. Raises SetupError.

    Parameters:
        own: titles of the stack's own objects.
    """
    told = _run(variables, "infra.dependents", stack, stdin=json.dumps(own))
    found: dict[str, Any] = json.loads(told)
    return found


def remove_unfinished(variables: Mapping[str, str], stack: str, cluster: str) -> None:
    """Remove what a killed `make up` left of `cluster`. Raises SetupError for a finished one: no state told of it."""
    _run(variables, "infra.clusters.unfinished", cluster, stack)


def _run(
    variables: Mapping[str, str],
    module: str,
    *arguments: str,
    stdin: str = "",
    about: str = "",
) -> str:
    """Run a module of the program; its output.

    Raises SetupError with `about` and what the module says, where it fails.
    """
    try:
        return venv.output(module, *arguments, env=environment.for_child(variables), stdin=stdin)
    except SetupError as error:
        raise SetupError(f"{about}{error}") from None


def _show(text: str) -> None:
    for line in text.splitlines():
        say(line)
