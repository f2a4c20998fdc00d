"""Waiting for what a test has caused. The limit is a guard against hangs: no machine is slow enough to reach it."""

from __future__ import annotations

import time
from collections.abc import Callable

HANG_S = 1200.0


def wait_until(what: str, holds: Callable[[], bool], seconds: float = HANG_S, pause: float = 0.3) -> None:
    """Ask `holds` again and again. An AssertionError that says `what` did not come about."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(pause)
