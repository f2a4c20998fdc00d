"""Locks of files: of a folder of ours, or of the machine, whichever clone a process works in."""

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
    """The file that `opened` opens, locked; the kernel lets go of a killed process' lock.

    Whoever removes the file holds its lock, so who has waited for it may have that of a file that is gone, which keeps
    nobody out: it is opened anew then.

    Parameters:
        opened: opens the file, and makes it where it is missing.
        waiting: what surrounds a wait for another process; gets the file.
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
    """One process at a time inside."""
    with held(lambda: _handle(f"{name}.lock")):
        yield


def _handle(name: str) -> IO[str]:
    """Reading is enough to lock a file of root's. Where root has made none, a user's own commands share one."""
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
