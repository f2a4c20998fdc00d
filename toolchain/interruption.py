"""SIGINT and SIGTERM: the first ends the command in order, a later one hastens that end.

`timeout` signals make and us, and make hands the signal on: signals that come together are one wish.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM)
TOGETHER_S = 1.0
POLL_S = 0.5
"""Seconds after which a wait looks up: a signal that another thread took does not wake the main one."""


def _raise() -> None:
    raise KeyboardInterrupt


def _leave() -> None:
    """Nothing can be hastened."""


@dataclass
class _Interruption:
    """`first`, `last`: seconds of the monotonic clock at which the first and the last signal came."""

    first: float | None = None
    last: float = 0.0
    begin: Callable[[], None] = _raise
    hasten: Callable[[], None] = _leave

    def handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        earlier, self.last = self.last, now
        # Noted before anything is done: the next signal may come while this one is handled.
        if self.first is None:
            self.first = now
            self.begin()
        elif now - earlier > TOGETHER_S:
            self.hasten()


_current = _Interruption()


def catch(hasten: Callable[[], None]) -> None:
    """From now on the first signal raises KeyboardInterrupt, once; each later wish calls `hasten`.

    Both run between two instructions of the main thread: `hasten` must take no lock and print nothing.
    """
    global _current
    _current = _Interruption(hasten=hasten)
    for number in NUMBERS:
        signal.signal(number, _current.handle)


def ignore() -> None:
    """The command has ended in order: a signal that comes while Python shuts down changes nothing any more."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def handled_by(begin: Callable[[], None], hasten: Callable[[], None]) -> Iterator[None]:
    """Call these instead, as long as the block runs; after it, raise KeyboardInterrupt if a signal came meanwhile."""
    handler = _current
    before = handler.begin, handler.hasten
    # `begin` last: a signal in between must not find a `hasten` for what has not begun.
    handler.hasten, handler.begin = hasten, begin
    try:
        yield
    finally:
        handler.begin, handler.hasten = before
    if handler.first is not None:
        raise KeyboardInterrupt
