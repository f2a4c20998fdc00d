"""File locks: for one of our folders, or for the whole machine with all clones."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO

from toolchain.paths import MACHINE, cache


@contextmanager
def held(
    opened: Callable[[], IO[str]],
    waiting: Callable[[IO[str]], AbstractContextManager[object]] = lambda _: nullcontext(),
) -> Iterator[IO[str]]:
    """Lock the file that `opened` opens, and yield it. The kernel releases the lock of a killed process.

    The holder of the lock may delete the file. A waiter may then hold the lock of a deleted file, so it opens the file
    again.

    Parameters:
        opened: opens the file, and creates it if it is missing.
        waiting: a context for the wait for another process; gets the file.
    """
    while True:
        with opened() as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                with waiting(handle):
                    fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_there(handle):
                yield handle
                return


def _is_there(handle: IO[str]) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), os.stat(handle.name))
    except FileNotFoundError:
        return False


@contextmanager
def machine_wide(name: str) -> Iterator[None]:
    """Only one process on this machine runs the block at a time."""
    with held(lambda: _handle(f"{name}.lock")):
        yield


def _handle(name: str) -> IO[str]:
    """Root's lock file, opened for reading if this user may not write it; else a file in the user's cache."""
    try:
        MACHINE.mkdir(parents=True, exist_ok=True)
        return (MACHINE / name).open("a")
    except PermissionError:
        pass
    try:
        return (MACHINE / name).open()
    except OSError:
        cache().mkdir(parents=True, exist_ok=True)
        return (cache() / name).open("a")
