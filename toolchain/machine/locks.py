"""Locks that hold for the machine, whichever clone a process works in."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from toolchain.paths import MACHINE


@contextmanager
def machine_wide(name: str) -> Iterator[None]:
    """One process at a time inside; the kernel lets go of a killed one's lock."""
    MACHINE.mkdir(parents=True, exist_ok=True)
    with (MACHINE / f"{name}.lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
