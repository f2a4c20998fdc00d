"""The models lie on a file system that has no hard links: nothing is different."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.e2e import clones
from tests.e2e.project import Project
from tests.faults.table import cluster, exfat, training
from tests.faults.table.ground import SETTINGS
from tests.faults.table.rows import Way
from tests.faults.table.trial import Trial, each_way
from toolchain.machine.engine import Engine

SIZE_MIB = 256


@pytest.fixture
def linkless(engine: Engine, way: Way) -> Iterator[Project]:
    """A clone whose models lie on exFAT, which has no owners and no modes either."""
    with clones.temporary("exfat") as clone:
        clone.configure(SETTINGS[way])
        clone.models.mkdir(parents=True)
        with exfat.mounted(clone.root.parent / "exfat.img", clone.models, SIZE_MIB):
            yield clone
            clone.make("down")


@pytest.mark.slow(reason="a cluster of its own, on another file system")
@pytest.mark.parametrize("way", each_way("volume-without-links"))
def test_a_training_on_a_volume_without_hard_links(
    undisturbed: tuple[float, float], linkless: Project, trial: Trial
) -> None:
    file = linkless.models / "file"
    file.touch()
    with pytest.raises(PermissionError):
        file.with_name("link").hardlink_to(file)
    file.unlink()
    with training.started(linkless) as run:
        run.reaches(1, 0.1)
        # Looked up before: on a busy machine that can take as long as the epochs that are left.
        master = cluster.trainer(linkless, "master")
        run.reaches(2, 0.2)
        epoch, step = run.progress
        os.kill(master, signal.SIGKILL)
        trial.strike(f"epoch {epoch}")
        run.goes_on(step)
        trial.recovered()
        assert run.result() == undisturbed
    assert (linkless.models / "mnist_cnn.pt").is_file()
