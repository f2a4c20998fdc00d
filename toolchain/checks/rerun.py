"""`make rerun`: the same training once more, on purpose. What changes is a line that a review shows."""

from __future__ import annotations

import subprocess

from toolchain import stack_files
from toolchain.checks import review
from toolchain.operating import environment, setup
from toolchain.operating.environment import write_whole
from toolchain.paths import ROOT, STACKS
from toolchain.tools import venv


def rerun(stack: str, job: str) -> int:
    """Count the key `rerun` of `stack` up, render it, and say what comes next; the exit status.

    The stack file stays as it was where that fails or is interrupted.

    Raises SetupError for a stack that does not exist.

    Parameters:
        job: the one that is trained once more; empty for all.
    """
    stack_files.check(stack)
    with setup.project_lock():
        venv.ensure()
        file = STACKS / f"Pulumi.{stack}.yaml"
        before = file.read_text()
        try:
            status = _count_up(stack, job) or review.render(stack)
        except BaseException:
            write_whole(file, before)
            raise
        if status:
            write_whole(file, before)
            return status
    print(f"to train it once more: make up STACK={stack}")
    return 0


def _count_up(stack: str, job: str) -> int:
    command = venv.program("infra.rerun", stack, *([job] if job else []))
    return subprocess.run(command, cwd=ROOT, env=environment.for_child(environment.tools())).returncode
