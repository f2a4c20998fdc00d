"""The clone's disk is full in a phase of `make up`: it says so and ends; with room again, the next one finishes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e import clones
from tests.e2e.project import Project
from tests.faults.table import training
from tests.faults.table.rows import DISK_PHASES
from tests.faults.table.trial import Trial
from toolchain.machine.engine import Engine

SIZE_GIB = 3
SAID = r"No space left on device|no space left on device|ENOSPC|GiB are free on the disk"


@pytest.fixture(scope="module")
def small(engine: Engine) -> Iterator[Project]:
    """A clone on a file system of its own, of SIZE_GIB: what `make up` asks for, and a little more."""
    with clones.owned("disk") as folder:
        (folder / "disk").mkdir()
        options = ["-t", "tmpfs", "-o", f"size={SIZE_GIB}g", "disk", str(folder / "disk")]
        subprocess.run(["mount", *options], check=True)
        clone = clones.clone(folder / "disk" / "trainstack", cluster=folder.name)
        clone.logs = folder  # on another disk, else nothing of what it says could be read
        clones.STANDING.append(clone)
        try:
            clone.up()
            yield clone
        finally:
            clones.STANDING.remove(clone)
            clone.make("down")


def fill(folder: Path) -> Path:
    """Take every byte of the disk of `folder`."""
    filler = folder / ".filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass
    return filler


@pytest.mark.slow(reason="a cluster of its own, on a small file system")
@pytest.mark.row("disk-full-clone")
@pytest.mark.parametrize("phase", DISK_PHASES)
def test_a_full_disk_is_said_and_mended_by_room(small: Project, trial: Trial, phase: str) -> None:
    with training.started(small, training.SHORT, restarts=1) as run:
        run.make.reaches(phase)
        filler = fill(small.root)
        trial.strike(run.make.phase)
        try:
            assert run.make.ended() != 0, run.make.output
        finally:
            filler.unlink()
        assert run.make.says(SAID)
    small.up()
    trial.recovered()
