"""SIGINT and SIGTERM: the first signal ends the command in order, a later one makes it end faster.

The command `timeout` sends its signal to make and to this process, and make sends it to this process again. So signals
that come within TOGETHER_S count as one.
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
"""The longest wait without a check for signals: a signal that another thread gets does not wake the main thread."""


def _raise() -> None:
    raise KeyboardInterrupt


def _leave() -> None:
    """There is nothing that could end faster."""


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
        # Set first, because the next signal may come while this one is handled.
        if self.first is None:
            self.first = now
            self.begin()
        elif now - earlier > TOGETHER_S:
            self.hasten()


_current = _Interruption()


def catch(hasten: Callable[[], None]) -> None:
    """From now on the first signal raises KeyboardInterrupt, once; each later one calls `hasten`.

    Python runs both between two instructions of the main thread: `hasten` must take no lock and print nothing.
    """
    global _current
    _current = _Interruption(hasten=hasten)
    for number in NUMBERS:
        signal.signal(number, _current.handle)


def ignore() -> None:
    """Ignore signals while Python shuts down: the command has already ended in order."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def handled_by(begin: Callable[[], None], hasten: Callable[[], None]) -> Iterator[None]:
    """In the block, signals call these functions. After the block, raise KeyboardInterrupt if a signal came."""
    handler = _current
    before = handler.begin, handler.hasten
    # `begin` is set last: a signal must not call the new `begin` while the earlier `hasten` is still set.
    handler.hasten, handler.begin = hasten, begin
    try:
        yield
    finally:
        handler.begin, handler.hasten = before
    if handler.first is not None:
        raise KeyboardInterrupt
