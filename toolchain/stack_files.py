"""Lists the stacks: each has one file."""

from __future__ import annotations

import difflib
from pathlib import Path

from toolchain import paths
from toolchain.steps import SetupError

STACKS = paths.STACKS


def names() -> list[str]:
    """Names of the stacks that have a file."""
    return sorted(path.name[len("Pulumi.") : -len(".yaml")] for path in STACKS.glob("Pulumi.*.yaml"))


def file(stack: str) -> Path:
    """The file that configures `stack`."""
    return STACKS / f"Pulumi.{stack}.yaml"


def check(stack: str) -> None:
    """Raise SetupError, which lists the stacks, if `stack` has no file."""
    there = names()
    if stack in there:
        return
    meant = difflib.get_close_matches(stack, there, n=1)
    name = f"{STACKS.name}/{file(stack).name}"
    raise SetupError(
        f"there is no stack {stack!r} (no {name})",
        f"use one of: {', '.join(there)}" if there else f"there is no stack file yet: create {name}",
        instead=(stack, *meant),
    )
