"""Waiting for an unreachable API server: one clock for all requests of a provider."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from pulumi_standins.kubernetes.errors import CancelledError

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 3.0
# A broken connection is not reported if the next one works.
_SAID_AFTER = 1.5


def pause_before(attempt: int) -> float:
    """Seconds before the next attempt: more after each attempt, and random, so that clients spread."""
    seconds: float = min(_FIRST_PAUSE * 2 ** min(attempt, 10), _LONGEST_PAUSE)
    return seconds * random.uniform(0.75, 1.25)


class Patience:
    """How long requests wait for an unreachable server.

    The time counts from the first failure of any request until a request is answered, so that 30 objects wait for an
    outage together and not one after another.

    Parameters:
        seconds: from the first failure until requests give up; 0 gives up at once.
        cancelled: set when the user asks to stop.
        say: called with messages for the user: one that the server is away, one that it is back.
    """

    def __init__(self, seconds: float, cancelled: threading.Event, say: Callable[[str], None]) -> None:
        self.seconds = seconds
        self._cancelled = cancelled
        self._say = say
        self._lock = threading.Lock()
        self._away_since: float | None = None
        self._was_said = False

    def answered(self) -> None:
        """The server answers."""
        if self._away_since is None:
            return
        with self._lock:
            since, self._away_since = self._away_since, None
            was_said, self._was_said = self._was_said, False
        if since is not None and was_said:
            self._say(f"the API server answers again after {time.monotonic() - since:.0f} s")

    def wait_until_back(self, attempt: int, reason: str) -> bool:
        """Pause before the next attempt; false if the server has been away for too long.

        Raises:
            CancelledError: the user asked to stop.
        """
        now = time.monotonic()
        with self._lock:
            self._away_since = self._away_since or now
            left = self._away_since + self.seconds - now
            is_news = not self._was_said and now - self._away_since >= min(_SAID_AFTER, self.seconds / 2)
            self._was_said = self._was_said or is_news
        if left <= 0:
            return False
        if is_news:
            self._say(f"the API server does not answer, waiting for it for {left:.0f} s: {reason}")
        self.pause(min(left, pause_before(attempt)))
        return True

    def pause(self, seconds: float) -> None:
        """Wait for `seconds`; raises CancelledError if the user asks to stop."""
        if self._cancelled.wait(seconds):
            raise CancelledError
