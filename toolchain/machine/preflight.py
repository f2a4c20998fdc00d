"""Checks before any work starts, in less than a second, and watches the disks during the work."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from toolchain import failure
from toolchain.machine import engine
from toolchain.machine.engine import daemon
from toolchain.paths import ROOT, cache
from toolchain.steps import SetupError

MARGIN = 1.2
GIB = 2**30

# Peak need, measured on a bare machine (docs/internals/measuring.md): Go caches (modules, builds), tools, images.
BUILD_BYTES = 13 * GIB
ENGINE_BYTES = 9 * GIB
# A cluster, the trainer image and the registry's copy of it, if everything else is already here.
RUN_BYTES = 4 * GIB
USERS_ENGINE = Path("/var/lib/docker")
# With less than this the engine, an etcd or a build fails.
FULL_BYTES = 16 << 20
SAMPLE_S = 1.0


class NoRoomError(SetupError):
    """A disk has less free space than needed."""


def check(*, builds: bool) -> None:
    """Raise SetupError for the first missing thing. `builds`: a tool has to be built, which needs disk space."""
    if engine.find() is None:
        engine.may_install()
    check_space(needs(builds=builds))


def check_access(folders: Iterable[Path]) -> None:
    """Raise SetupError for the first file of another user, at most two levels deep, that this user may not write."""
    for folder in folders:
        for place in (folder, *sorted(folder.glob("*")), *sorted(folder.glob("*/*"))):
            if _is_somebody_elses(place) and not os.access(place, os.W_OK):
                raise failure.others_file(place, f"{place} cannot be written")


def _is_somebody_elses(place: Path) -> bool:
    try:
        return place.lstat().st_uid != os.geteuid()
    except OSError:
        return False  # it does not exist, or its folder, which was checked before it, cannot be read


def needs(*, builds: bool) -> list[tuple[Path, int]]:
    """Folders that will grow, and by how many bytes."""
    grows = [(ROOT, RUN_BYTES // 4)]
    if builds:
        grows.append((cache(), BUILD_BYTES))
    if os.geteuid() == 0:
        grows.append((daemon.DATA, ENGINE_BYTES if builds else RUN_BYTES))
    return grows


def existing(folder: Path) -> Path:
    """`folder`, or the nearest folder above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def check_space(grows: Iterable[tuple[Path, int]]) -> None:
    """Raise NoRoomError if a disk has less free space than its folders will grow by, plus a margin of 20%."""
    on_disk: dict[int, list[tuple[Path, int]]] = {}
    for folder, size in grows:
        on_disk.setdefault(existing(folder).stat().st_dev, []).append((folder, size))
    for found in on_disk.values():
        place, need = existing(found[0][0]), MARGIN * sum(size for _, size in found)
        free = shutil.disk_usage(place).free
        if free < need:
            has_cache = any(folder.is_relative_to(cache()) for folder, _ in found)
            moved = (
                ", or move the cache: set XDG_CACHE_HOME to a folder on a larger disk" if has_cache else ""
            )
            raise NoRoomError(
                f"{free / GIB:.1f} GiB are free on the disk of {place}, but {need / GIB:.1f} GiB are needed",
                f"free some space there{moved}",
            )


def disks() -> list[Path]:
    """A folder on each disk that holds the clone, the caches or the engine."""
    found: dict[int, Path] = {}
    for folder in (ROOT, cache(), daemon.DATA, USERS_ENGINE):
        there = existing(folder)
        found.setdefault(there.stat().st_dev, there)
    return list(found.values())


def full(folders: Iterable[Path]) -> dict[Path, int]:
    """The folders whose disk is full -> free bytes."""
    found = {}
    for folder in folders:
        try:
            free = shutil.disk_usage(folder).free
        except OSError:  # the folder was deleted meanwhile
            continue
        if free < FULL_BYTES:
            found[folder] = free
    return found


@contextmanager
def watched() -> Iterator[None]:
    """Add the disks that were full during the block to the block's error, even if they have space again.

    Raises the block's SetupError, with one more sentence.
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
        raise NoRoomError(
            f"{error.what}\n  {_sentence(seen)}", "free some space on each disk that is named above"
        ) from error
    finally:
        ended.set()
        looking.join()


def _sentence(seen: dict[Path, int]) -> str:
    parts = [f"{free >> 20} MiB were free on the disk of {place}" for place, free in seen.items()]
    return f"No space left on device: {', '.join(parts)}"
