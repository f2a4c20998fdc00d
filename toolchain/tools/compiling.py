"""How many builds compile at once, and which of those that wait is next."""

from __future__ import annotations

import heapq
import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

AMPLE_BYTES = 8 << 30
"""Memory with which two builds may compile at once. Kubernetes' linker alone takes 2 GiB."""
FIRST = ("kubernetes",)
"""Modules whose build is next whenever it waits: making the nodes' image waits for it, and compiles nothing."""


class Turns:
    """At most `most` builds at once. Of those that wait, the one with the lowest rank is next, then the oldest."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: list[tuple[int, int]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, rank: int) -> Iterator[None]:
        """Wait for a turn, and keep it while the block runs."""
        with self._changed:
            mine = (rank, next(self._numbers))
            heapq.heappush(self._waiting, mine)
            self._changed.wait_for(lambda: self._free > 0 and self._waiting[0] == mine)
            heapq.heappop(self._waiting)
            self._free -= 1
            self._changed.notify_all()  # another turn may be free for the next one
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()


def most(memory_bytes: int) -> int:
    """Builds at once: a build uses every core, but for the time that it links. Then another one has them."""
    return 2 if memory_bytes >= AMPLE_BYTES else 1


def rank(module: str) -> int:
    """What orders the builds that wait; lower is earlier."""
    return 0 if module in FIRST else 1


_turns = Turns(most(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))


def turn(module: str) -> AbstractContextManager[None]:
    """The turn of the build of `module`, as a context."""
    return _turns.taken(rank(module))
