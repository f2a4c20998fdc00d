"""A protected stack is applied only in its reviewed form: from a clean tree, with fresh renderings."""

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
    """Refuse a protected `stack` if this clone has changes without a commit; the caller holds the project's lock.

    Returns a function that checks the tree and the renderings. Call that function after the data set is copied, and
    again for each plan. Both functions raise SetupError. If `stack` is not protected, they accept any change.
    """
    ensure_clean(stack)
    return partial(_ensure_reviewed, stack)


def ensure_clean(stack: str) -> None:
    """Raises SetupError if `stack` is protected, and this clone differs from its commit."""
    if environment.is_protected(stack) and (found := changes()):
        raise SetupError(
            f"stack {stack} is protected, and these files have changes without a commit: {listed(found, SHOWN)}",
            "have the changes reviewed and merged, then run the same command from the merged commit; or undo them",
        )


def _ensure_reviewed(stack: str) -> None:
    ensure_clean(stack)
    if environment.is_protected(stack) and review.render(stack, "--check", "--here"):
        raise SetupError(
            f"stack {stack} is protected, and its committed renderings are stale, as shown above",
            f"run `make review STACK={stack}`, have the files reviewed and merged, then run `make up` from that commit",
        )


def changes() -> list[str]:
    """Files of this clone that differ from its commit, or are not in it. Raises SetupError outside a Git repository."""
    try:
        return git.changes(ROOT)
    except git.GitError as error:
        if "safe.directory" in str(error):  # the clone is another user's; Git's message has the fix
            raise SetupError(str(error)) from None
        raise SetupError(
            f"Git cannot say whether this clone has changes without a review: {error}",
            "run commands for a protected stack in a clone of its repository",
        ) from None
