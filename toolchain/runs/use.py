"""`make use RUN=…`: go back to a finished run, by the stack file, so that the way back is reviewed like any change."""

from __future__ import annotations

import re

from toolchain import stack_files
from toolchain.runs import records
from toolchain.steps import SetupError
from toolchain.tools import venv

NONE = "none"
WHOLE = re.compile(r"[a-z][-a-z0-9]*-[0-9a-f]{8}")


def use(stack: str, name: str) -> None:
    """Write the run called `name` into the file of `stack`, or none. Raises SetupError.

    A run is looked for here first; on a volume that is elsewhere it may be all the same, under its whole name.
    """
    if not name:
        raise SetupError("a run is needed", "make use RUN=<run>, as `make runs` lists them, or RUN=none")
    stack_files.check(stack)
    run = name if name == NONE else _run(stack, name)
    venv.ensure()
    jobs = venv.output("infra.chosen_run", stack, run).split()
    for job in jobs:
        what = "trains again as the file says" if run == NONE else f"takes run {run}"
        print(f"job {job} {what}; `make up STACK={stack}` brings it about")
    if not jobs:
        print(f"stacks/Pulumi.{stack}.yaml says so already")


def _run(stack: str, name: str) -> str:
    """The whole name of a run of `stack`. Raises SetupError for one that is not finished, or not this stack's.

    The program knows whether a run that is not on this machine may be on the volume.
    """
    name = name.removeprefix(f"{stack}/")
    try:
        run = records.find(f"{stack}/{name}")
    except SetupError:
        if WHOLE.fullmatch(name):
            return name
        raise
    if run.model is None:
        raise SetupError(
            f"run {run.name} is not finished", "take one that `make runs` shows with all its epochs"
        )
    return run.name
