"""A protected stack is applied only as a review has shown it: from a clean tree, with renderings that are fresh."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from toolchain import git
from toolchain.checks import review
from toolchain.operating import environment
from toolchain.paths import ROOT, STACKS
from toolchain.steps import SetupError
from toolchain.tools import venv

SHOWN = 5


def ensure_committed(stack: str) -> Callable[[], None]:
    """Refuse a protected `stack` that no commit has as it is here; the caller holds the project's lock.

    Returns the check to make before anything is applied, when the data set is in its place: of the tree once more,
    and of the renderings. Both raise SetupError.
    """
    if "protected" not in (STACKS / f"Pulumi.{stack}.yaml").read_text():
        return _nothing
    venv.ensure()  # the program's models say whether the word is the key
    if not environment.is_protected(stack):
        return _nothing
    _ensure_clean(stack)
    return partial(_ensure_reviewed, stack)


def _nothing() -> None:
    """The check of a stack that is not protected."""


def _ensure_clean(stack: str) -> None:
    if found := changes():
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise SetupError(
            f"stack {stack} is protected, and no commit has what is here: {', '.join(found[:SHOWN])}{more}",
            "have it reviewed and merged, and run `make up` from the merged commit; or take it back",
        )


def _ensure_reviewed(stack: str) -> None:
    _ensure_clean(stack)
    if review.render(stack, "--check", "--here"):
        raise SetupError(
            f"stack {stack} is protected, and its committed renderings are not what it applies, as shown above",
            f"run `make review STACK={stack}`, have what it writes reviewed and merged, and run `make up` from there",
        )


def changes() -> list[str]:
    """Files of this clone that differ from its commit, or are not in it. Raises SetupError outside of Git."""
    asked = git.run(ROOT, *git.STATUS)
    if "safe.directory" in asked.stderr:  # the clone is another user's: Git says itself what helps
        raise SetupError(asked.stderr.strip())
    if asked.returncode:
        raise SetupError(
            f"Git cannot say whether this clone is as it was reviewed: {asked.stderr.strip()}",
            "run `make up` of a protected stack from a clone of its repository",
        )
    # The name that a renamed file had follows it, without a status of its own.
    entries = [each for each in asked.stdout.split("\0") if each]
    return [each[3:] for each in entries if each[2:3] == " "]
