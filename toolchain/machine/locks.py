"""File locks: for one of our folders, or for the whole machine with all clones."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO

from toolchain.paths import MACHINE, cache


def _opened(file: Path) -> IO[str]:
    file.parent.mkdir(parents=True, exist_ok=True)
    return file.open("a+")


@contextmanager
def held(
    file: Path,
    waiting: Callable[[IO[str]], AbstractContextManager[object]] = lambda _: nullcontext(),
    opened: Callable[[Path], IO[str]] = _opened,
) -> Iterator[IO[str]]:
    """Lock `file`, and yield it, open. The kernel releases the lock of a killed process.

    The holder of the lock may delete the file. A waiter may then hold the lock of a deleted file, so it opens the file
    again.

    Parameters:
        waiting: a context for the wait for another process; gets the file.
        opened: opens the file; by default creates it, with its folder, if it is missing.
    """
    while True:
        with opened(file) as handle:
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


def machine_wide(name: str) -> AbstractContextManager[IO[str]]:
    """Only one process on this machine runs the block at a time."""
    return held(MACHINE / f"{name}.lock", opened=_of_machine)


def _of_machine(file: Path) -> IO[str]:
    """Root's lock file, opened for reading if this user may not write it; else a file in the user's cache."""
    with suppress(PermissionError):
        return _opened(file)
    try:
        return file.open()
    except OSError:
        return _opened(cache() / file.name)
