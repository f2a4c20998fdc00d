"""The disk of the clone, or of the caches, is full in a phase of `make up`; with room again, the next one finishes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e import clones
from tests.e2e.project import Project
from tests.faults.table import training
from tests.faults.table.rows import DISK_PHASES
from tests.faults.table.trial import Trial
from toolchain import paths
from toolchain.machine.engine import Engine

SIZE_GIB = {"disk-full-clone": 3, "disk-full-caches": 5}
"""Of each row's small disk: what `make up` asks for there, what it holds already, and a little more."""
SAID = r"No space left on device|no space left on device|ENOSPC|GiB are free on the disk"


CASES = [
    pytest.param(row, phase, marks=pytest.mark.row(row), id=f"{row}-{phase}")
    for row in SIZE_GIB
    for phase in DISK_PHASES
]


@dataclass(frozen=True)
class Small:
    """A project of which `disk` is a file system of its own, of the row's size."""

    project: Project
    disk: Path
    row: str


@pytest.fixture(scope="module")
def small(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Small]:
    """The stack has come up once."""
    row = str(request.param)
    with clones.owned("disk") as folder, pytest.MonkeyPatch.context() as changes:
        disk = folder / "disk"
        disk.mkdir()
        options = ["-t", "tmpfs", "-o", f"size={SIZE_GIB[row]}g", "disk", str(disk)]
        subprocess.run(["mount", *options], check=True)
        if row == "disk-full-caches":
            shutil.copytree(paths.cache(), disk / paths.cache().name, symlinks=True)
            changes.setenv("XDG_CACHE_HOME", str(disk))
        place = folder if row == "disk-full-caches" else disk
        clone = clones.clone(place / "trainstack", cluster=folder.name)
        clone.logs = folder  # on another disk, else nothing of what it says could be read
        with clones.standing(clone):
            clone.up()
            yield Small(clone, disk, row)


# Enough for what `make up` writes between two phases; filled within a moment.
LEFT_MIB = 32


def fill(disk: Path, left: int = 0) -> Path:
    """Take every byte of a disk but `left`; the file that has them."""
    filler = disk / f".filler-{left}"
    with filler.open("wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(disk).free - max(left, 1 << 20)))
        file.seek(0, os.SEEK_END)
        with suppress(OSError):
            while not left and file.write(bytes(1 << 12)):
                pass
    return filler


@pytest.mark.slow(reason="a cluster of its own, on a small file system")
@pytest.mark.parametrize(("small", "phase"), CASES, indirect=["small"], scope="module")
def test_a_full_disk_is_said_and_mended_by_room(small: Small, trial: Trial, phase: str) -> None:
    """Where everything is built, the caches may be full without being asked for room."""
    project = small.project
    with training.started(project, training.SHORT, restarts=1) as run:
        fillers = []
        try:
            if DISK_PHASES.index(phase) > DISK_PHASES.index("refresh"):  # it has looked for room by then
                run.make.reaches("refresh")
                fillers = [fill(small.disk, LEFT_MIB << 20)]
            run.make.reaches(phase)
            fillers.append(fill(small.disk))
            trial.strike(run.make.phase)
            status = run.make.ended()
        finally:
            for filler in fillers:
                filler.unlink()
        assert status != 0 or small.row == "disk-full-caches", run.make.output
        assert status == 0 or run.make.says(SAID)
    project.up()
    trial.recovered()
