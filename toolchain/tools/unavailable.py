"""Remembers what this machine could not download, so that it is not asked for again at once.

One failed look may be a cable that was out: only what fails again some time later is taken as not to be had here.
"""

from __future__ import annotations

import time
from pathlib import Path

from toolchain.paths import cache

FIRST_S = 600
KEEP_S = 24 * 3600


def refused(what: str) -> bool:
    """Whether `what` could not be downloaded lately.

    Lately is FIRST_S seconds ago at most, or KEEP_S where it was not the first time.
    """
    looks = _failed_looks(what)
    return bool(looks) and time.time() - looks[-1] < (KEEP_S if len(looks) > 1 else FIRST_S)


def remember_refusal(what: str) -> None:
    looks = [*_failed_looks(what), time.time()]
    note = _note(what)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("".join(f"{look}\n" for look in looks))


def forget(what: str) -> None:
    """Forget that `what` failed: it can be downloaded."""
    _note(what).unlink(missing_ok=True)


def _failed_looks(what: str) -> list[float]:
    """When `what` could not be had in the last KEEP_S seconds, in seconds since the epoch."""
    try:
        words = _note(what).read_text().split()
    except FileNotFoundError:
        return []
    return [look for look in map(float, words) if time.time() - look < KEEP_S]


def _note(what: str) -> Path:
    return cache() / "refused" / what
