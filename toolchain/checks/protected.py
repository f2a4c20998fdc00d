"""A protected stack is applied only as a review has shown it: from a clean tree, with renderings that are fresh."""

from __future__ import annotations

import subprocess

from toolchain.checks import review
from toolchain.operating import backend, environment, setup
from toolchain.paths import ROOT, STACKS
from toolchain.steps import SetupError
from toolchain.tools import venv

SHOWN = 5


def ensure_reviewed(stack: str) -> None:
    """Raises SetupError where `stack` is protected, and what it would apply is not what was committed for review."""
    backend.check_stack(stack)
    if "protected" not in (STACKS / f"Pulumi.{stack}.yaml").read_text():
        return
    with setup.project_lock():
        venv.ensure()  # the program's models say whether the word is the key
    if not environment.is_protected(stack):
        return
    if found := changes():
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise SetupError(
            f"stack {stack} is protected, and no commit has what is here: {', '.join(found[:SHOWN])}{more}",
            "have it reviewed and merged, and run `make up` from the merged commit; or take it back",
        )
    if review.review(stack, "--check", "--here"):
        raise SetupError(
            f"stack {stack} is protected, and its committed renderings are not what it applies, as shown above",
            f"run `make review STACK={stack}`, have what it writes reviewed and merged, and run `make up` from there",
        )


def changes() -> list[str]:
    """Files of this clone that differ from its commit, or are not in it. Raises SetupError outside of Git."""
    asked = subprocess.run(["git", "status", "--porcelain", "-z"], cwd=ROOT, capture_output=True, text=True)
    if asked.returncode:
        raise SetupError(
            f"Git cannot say whether this clone is as it was reviewed: {asked.stderr.strip()}",
            "run `make up` of a protected stack from a clone of its repository",
        )
    # The name that a renamed file had follows it, without a status of its own.
    entries = [each for each in asked.stdout.split("\0") if each]
    return [each[3:] for each in entries if each[2:3] == " "]
