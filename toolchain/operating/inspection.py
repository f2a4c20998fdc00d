"""What the program's own code, in the virtual environment, does to a stack's cluster before and after `pulumi up`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from toolchain.operating import environment
from toolchain.paths import ROOT, VENV
from toolchain.steps import SetupError


def release_volumes(variables: Mapping[str, str], stack: str) -> None:
    """Free volumes that a deletion has left half way. Raises SetupError where somebody else's pod holds one."""
    if problem := _run(variables, "infra.release_volumes", stack):
        raise SetupError(problem)


def inspect(variables: Mapping[str, str], stack: str, outputs: Mapping[str, Any]) -> None:
    """Raises SetupError where objects of `stack` are missing or on their way out, or its model is not its run's."""
    if problem := _run(variables, "infra.inspection", stack, json.dumps(outputs)):
        raise SetupError(f"`pulumi up` has ended, and the stack is not whole:\n{problem}")


def other_users(variables: Mapping[str, str], stack: str, own: list[str]) -> dict[str, Any]:
    """Who else uses what `stack` has installed for all: `jobs`, and objects by namespace. Raises SetupError.

    Parameters:
        own: titles of the stack's own objects.
    """
    command = [str(VENV / "bin" / "python"), "-m", "infra.other_users", stack]
    surroundings = environment.for_child(variables)
    done = subprocess.run(
        command, cwd=ROOT, env=surroundings, input=json.dumps(own), capture_output=True, text=True
    )
    if done.returncode:
        raise SetupError(done.stderr.strip() or "infra.other_users failed")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _run(variables: Mapping[str, str], module: str, stack: str, stdin: str = "") -> str:
    """Run a module of the program for `stack`; what it says where it fails, else nothing."""
    done = subprocess.run(
        [str(VENV / "bin" / "python"), "-m", module, stack],
        cwd=ROOT,
        env=environment.for_child(variables),
        input=stdin,
        stderr=subprocess.PIPE,
        text=True,
    )
    return done.stderr.strip() or f"{module} failed" if done.returncode else ""
