"""The checks before any work starts; they take less than a second."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from toolchain import failure
from toolchain.machine import engine
from toolchain.machine.disks import NoRoomError
from toolchain.machine.engine import daemon
from toolchain.paths import ROOT, cache

MARGIN = 1.2
GIB = 2**30

# Peak need, measured on a bare machine (docs/timings.md): Go's module and build caches, the tools, the images.
BUILD_BYTES = 13 * GIB
ENGINE_BYTES = 9 * GIB
# A cluster, the trainer image and the registry's copy of it, with everything else there already.
RUN_BYTES = 4 * GIB


def check(*, builds: bool) -> None:
    """Raise SetupError for the first thing missing. `builds`: some tool has to be built, which takes room."""
    if engine.find() is None:
        engine.may_install()
    check_space(needs(builds=builds))


def check_access(folders: Iterable[Path]) -> None:
    """Raise SetupError for the first file of somebody else's, two levels deep, that this user may not write."""
    for folder in folders:
        for place in (folder, *sorted(folder.glob("*")), *sorted(folder.glob("*/*"))):
            if _is_somebody_elses(place) and not os.access(place, os.W_OK):
                raise failure.others_file(place, f"{place} cannot be written")


def _is_somebody_elses(place: Path) -> bool:
    try:
        return place.lstat().st_uid != os.geteuid()
    except OSError:
        return False  # it is not there, or its folder, which comes before it, is not ours to read


def needs(*, builds: bool) -> list[tuple[Path, int]]:
    """Folders that will grow, and by how many bytes."""
    grows = [(ROOT, RUN_BYTES // 4)]
    if builds:
        grows.append((cache(), BUILD_BYTES))
    if os.geteuid() == 0:
        grows.append((daemon.DATA, ENGINE_BYTES if builds else RUN_BYTES))
    return grows


def check_space(grows: Iterable[tuple[Path, int]]) -> None:
    """Raise NoRoomError where a disk has less room than all that grows on it, plus a margin of 20%."""
    need: dict[int, int] = {}
    place: dict[int, Path] = {}
    for folder, size in grows:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        disk = there.stat().st_dev
        need[disk] = need.get(disk, 0) + size
        place.setdefault(disk, there)
    for disk, size in need.items():
        free = shutil.disk_usage(place[disk]).free
        if free < size * MARGIN:
            raise NoRoomError(
                f"{free / GIB:.1f} GiB are free on the disk of {place[disk]}, "
                f"and {size * MARGIN / GIB:.1f} GiB are needed",
                "free some space there, or set XDG_CACHE_HOME to a folder on a larger disk",
            )
