"""Notices disks that fill up while a command works: programs report that in their own words, or not at all."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from toolchain.machine.engine import daemon
from toolchain.paths import ROOT, cache
from toolchain.steps import SetupError

USERS_ENGINE = Path("/var/lib/docker")
# With less than this the engine, an etcd or a build fails.
FULL_BYTES = 16 << 20
SAMPLE_S = 1.0


class NoRoomError(SetupError):
    """A disk has less room than is needed."""


def disks() -> list[Path]:
    """A folder on each disk that clone, caches and engine lie on."""
    found: dict[int, Path] = {}
    for folder in (ROOT, cache(), daemon.DATA, USERS_ENGINE):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        found.setdefault(there.stat().st_dev, there)
    return list(found.values())


def full(folders: Iterable[Path]) -> dict[Path, int]:
    """The folders whose disk is full, and the bytes that are free there."""
    found = {}
    for folder in folders:
        try:
            free = shutil.disk_usage(folder).free
        except OSError:  # it has gone meanwhile
            continue
        if free < FULL_BYTES:
            found[folder] = free
    return found


@contextmanager
def watched() -> Iterator[None]:
    """Let an error of the block name the disks that were full meanwhile, whether or not they have room again.

    Raises the block's SetupError, with a sentence more.
    """
    seen: dict[Path, int] = {}
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(SAMPLE_S):
            seen.update(full(disks()))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    except SetupError as error:
        seen.update(full(disks()))
        if not seen or isinstance(error, NoRoomError):
            raise
        raise NoRoomError(f"{error.what}\n  {_sentence(seen)}", "free some space there") from error
    finally:
        ended.set()
        looking.join()


def _sentence(seen: dict[Path, int]) -> str:
    parts = [f"{free >> 20} MiB were free on the disk of {place}" for place, free in seen.items()]
    return f"No space left on device: {', '.join(parts)}"
