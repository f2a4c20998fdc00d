"""Asks Git about a clone."""

from __future__ import annotations

import subprocess
from pathlib import Path

STATUS = ("status", "--porcelain", "--untracked-files=normal", "-z")
"""What differs from the commit, new files included: a user may have told Git to show none of those."""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`git` with these words, in `folder`. Raises OSError where there is no Git."""
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)


def answer(folder: Path, *words: str) -> str | None:
    """What Git prints; None where it fails, or there is none."""
    try:
        done = run(folder, *words)
    except OSError:
        return None
    return None if done.returncode else done.stdout.strip()
