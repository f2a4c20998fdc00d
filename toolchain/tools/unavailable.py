"""Remembers for a day what this machine could not download, so that it is not asked for again."""

from __future__ import annotations

import time

from toolchain.paths import cache

KEEP_S = 24 * 3600


def refused(what: str) -> bool:
    """Whether `what` could not be had within the last day."""
    note = cache() / "refused" / what
    return note.exists() and time.time() - note.stat().st_mtime < KEEP_S


def remember_refusal(what: str) -> None:
    note = cache() / "refused" / what
    note.parent.mkdir(parents=True, exist_ok=True)
    note.touch()
