"""Waiting for what a test has caused. The limit is a guard against hangs: no machine is slow enough to reach it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

HANG_S = 1200.0
Until = Callable[[str, Callable[[], bool]], None]
"""Waits until its second argument holds, as `wait_until`."""


def wait_until(what: str, holds: Callable[[], bool], seconds: float = HANG_S, pause: float = 0.3) -> None:
    """Ask `holds` again and again. An AssertionError that says `what` did not come about."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(pause)


def while_running(process: subprocess.Popen[bytes], log: Path) -> Until:
    """A `wait_until` for what comes about only while `process` runs: an AssertionError with its `log` once it ends."""

    def until(what: str, holds: Callable[[], bool]) -> None:
        def still() -> bool:
            has_ended = process.poll() is not None
            found = holds()
            assert found or not has_ended, f"ended before: {what}\n{log.read_text(errors='replace')}"
            return found

        wait_until(what, still)

    return until
