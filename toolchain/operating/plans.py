"""The update of a protected stack: from a commit that contains the one applied last, by a plan that is shown first.

`--save-plan` and `--plan` are experimental in Pulumi (3.260). An update that would do something else fails.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from toolchain import git
from toolchain.operating import pulumi_cli
from toolchain.paths import ROOT
from toolchain.steps import SetupError, step

HEAD = "git.head"
_SHOWN = 12


def ensure_contained(variables: Mapping[str, str], stack: str) -> None:
    """Raises SetupError where the commit of this clone does not contain the one that `stack` was last updated from.

    Two people merge, and the runner of the first comes last; or a clone has not been pulled for a week. Each is
    reviewed and clean, and would undo the other's merge. Pulumi keeps the commit of every update in its history.
    """
    done = pulumi_cli.history(variables, stack)
    last = next((each for each in done if each["kind"] in ("update", "destroy")), None)
    applied = last["environment"].get(HEAD) if last and last["kind"] == "update" else None
    if not last or not applied:
        return
    if git.answer(ROOT, "merge-base", "--is-ancestor", applied, "HEAD") is not None:
        return
    known = git.answer(ROOT, "cat-file", "-e", f"{applied}^{{commit}}") is not None
    text = "is no part of the commit that is checked out here" if known else "is not known in this clone"
    what = (
        f"stack {stack} is protected, and was updated on {last['startTime']} from commit {applied[:_SHOWN]}"
    )
    raise SetupError(
        f"{what}, which {text}",
        "apply a commit that contains it: `git pull`, or in a runner a clone with its whole history; to go back, "
        "revert on the main branch and apply that",
    )


def update(
    variables: Mapping[str, str],
    stack: str,
    options: tuple[str, ...],
    quiet: tuple[str, ...],
    ensure_reviewed: Callable[[], None],
) -> int:
    """Show what an update of `stack` will do, then do that; the exit status of what has failed, else 0.

    Parameters:
        options: of the preview and of the update alike.
        quiet: of the update alone.
        ensure_reviewed: called when the plan is made: files that have changed meanwhile may be in it.
    """
    with tempfile.TemporaryDirectory(prefix="trainstack-plan-") as folder:
        plan = str(Path(folder) / "plan.json")
        common = (*options, "--stack", stack)
        shown = ("--diff", "--non-interactive", "--color", "never")
        with step("pulumi preview"):
            status = pulumi_cli.stream(variables, "preview", "--save-plan", plan, *shown, *common)
        if status:
            return status
        ensure_reviewed()
        with step("pulumi up"):
            return pulumi_cli.stream(variables, "up", "--plan", plan, *quiet, *common)
