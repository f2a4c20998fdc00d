"""Keeps a commit from being applied to a protected stack that lacks the commit which was applied last.

Two people merge, and the runner of the first comes last; or a clone has not been pulled for a week. Each is reviewed
and clean, and would undo the other's merge. Pulumi keeps the commit of every update in the stack's history.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolchain import git
from toolchain.operating import pulumi_cli
from toolchain.paths import ROOT
from toolchain.steps import SetupError

HEAD = "git.head"
_SHOWN = 12


def ensure_contained(variables: Mapping[str, str], stack: str) -> None:
    """Raises SetupError where the commit of this clone does not contain the one that `stack` was last updated from."""
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
