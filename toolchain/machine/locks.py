"""Locks that hold for the machine, whichever clone a process works in."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from toolchain.paths import MACHINE, cache


@contextmanager
def machine_wide(name: str) -> Iterator[None]:
    """One process at a time inside; the kernel lets go of a killed one's lock."""
    with _handle(f"{name}.lock") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
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
