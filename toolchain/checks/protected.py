"""A protected stack is applied only as a review has shown it: from a clean tree, with renderings that are fresh."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from infra.agreed import listed
from toolchain import git
from toolchain.checks import review
from toolchain.operating import environment
from toolchain.paths import ROOT
from toolchain.steps import SetupError

SHOWN = 5


def ensure_committed(stack: str) -> Callable[[], None]:
    """Refuse a protected `stack` that no commit has as it is here; the caller holds the project's lock.

    Returns the check to make when the data set is in its place, and again of each plan: of the tree once more, and of
    the renderings. Both raise SetupError; of a stack that is not protected they ask nothing else.
    """
    ensure_clean(stack)
    return partial(_ensure_reviewed, stack)


def ensure_clean(stack: str) -> None:
    """Raises SetupError where `stack` is protected, and this clone is not as its commit has it."""
    if environment.is_protected(stack) and (found := changes()):
        raise SetupError(
            f"stack {stack} is protected, and no commit has what is here: {listed(found, SHOWN)}",
            "have it reviewed and merged, and run the same command from the merged commit; or take it back",
        )


def _ensure_reviewed(stack: str) -> None:
    ensure_clean(stack)
    if environment.is_protected(stack) and review.render(stack, "--check", "--here"):
        raise SetupError(
            f"stack {stack} is protected, and its committed renderings are not what it applies, as shown above",
            f"run `make review STACK={stack}`, have what it writes reviewed and merged, and run `make up` from there",
        )


def changes() -> list[str]:
    """Files of this clone that differ from its commit, or are not in it. Raises SetupError outside of Git."""
    try:
        return git.changes(ROOT)
    except git.GitError as error:
        if "safe.directory" in str(error):  # the clone is another user's: Git says itself what helps
            raise SetupError(str(error)) from None
        raise SetupError(
            f"Git cannot say whether this clone is as it was reviewed: {error}",
            "run the command for a protected stack in a clone of its repository",
        ) from None
