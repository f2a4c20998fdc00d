"""Asks Git about a clone."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

WHOLE = ("-c", "core.sparseCheckout=false", "-c", "core.fsmonitor=false")
"""With these options, Git looks at every file, also at files outside a sparse checkout."""
STATUS = (
    "status",
    "--porcelain",
    "-z",
    "--untracked-files=normal",
    "--no-renames",
    "--ignore-submodules=none",
)
"""Lists what differs from the index, also files that the user's configuration leaves out."""
NO_CLONE = "not a git repository"


class GitError(RuntimeError):
    """Git's own words on why it does not answer."""


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `git` with these words and variables in `folder`. Names that are not UTF-8 have surrogate escapes.

    Raises OSError if Git is not installed.
    """
    environment = {**os.environ, "LC_ALL": "C", **variables}
    command = ["git", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, errors="surrogateescape"
    )


def answer(folder: Path, *words: str) -> str | None:
    """What Git prints; None if it fails or is not installed."""
    try:
        done = run(folder, *words)
    except OSError:
        return None
    return None if done.returncode else done.stdout.strip()


def asked(folder: Path, *words: str, **variables: str) -> str:
    """What Git prints. Raises GitError if it fails or is not installed."""
    try:
        done = run(folder, *words, **variables)
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        raise GitError(done.stderr.strip())
    return done.stdout


def changes(folder: Path) -> list[str]:
    """Names of the files of a clone that differ from its commit, are missing, or are new. Raises GitError.

    It does not use the clone's own index: --assume-unchanged and --skip-worktree would hide a file.
    """
    with tempfile.TemporaryDirectory(prefix="trainstack-index-") as place:
        index = str(Path(place) / "index")
        asked(folder, *WHOLE, "read-tree", "HEAD", GIT_INDEX_FILE=index)
        found = asked(folder, *WHOLE, *STATUS, GIT_INDEX_FILE=index)
    return [each[3:] for each in found.split("\0") if each]


def committed(folder: Path, is_wanted: Callable[[str], bool]) -> dict[str, str]:
    """Name -> text of the wanted files of `folder` in the commit; empty without a commit or without Git.

    Raises GitError if Git cannot read the clone.
    """
    try:
        head = run(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    except OSError:
        return {}
    if head.returncode and (not head.stderr or NO_CLONE in head.stderr):
        return {}
    names = filter(is_wanted, asked(folder, "ls-tree", "-z", "--name-only", "HEAD", "./").split("\0"))
    return {name: asked(folder, "cat-file", "blob", f"HEAD:./{name}") for name in names}
