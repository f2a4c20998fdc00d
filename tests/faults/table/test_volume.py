"""The models' volume breaks while a job trains: nothing is lost, and the training goes on once it is whole again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.e2e.project import Project
from tests.e2e.waiting import wait_until
from tests.faults.table import cluster, training
from tests.faults.table import ground as grounds
from tests.faults.table.conftest import FIXTURES
from tests.faults.table.ground import Ground
from tests.faults.table.rows import Way
from tests.faults.table.training import Training
from tests.faults.table.trial import Trial, of_each_way
from toolchain.machine.engine import Engine
from trainer.launch import ExitStatus

SIZE_MIB = 96
VOLUME_STATUS = f'"exitCode": {ExitStatus.VOLUME.value},'
"""What a pod's status says of a trainer that cannot use its volume."""

pytestmark = pytest.mark.slow(reason="a cluster of its own, on a small file system")


@pytest.fixture(scope="module")
def small(engine: Engine) -> Iterator[Ground]:
    """PyTorchJobs whose models lie on a file system of SIZE_MIB."""
    with grounds.on_file_system("volume", SIZE_MIB) as clone:
        yield Ground(clone)


@pytest.fixture
def ground(request: pytest.FixtureRequest, way: Way) -> Ground:
    """The other ways' clones have a file system of their own anyway."""
    found: Ground = request.getfixturevalue({**FIXTURES, Way.PYTORCHJOB: "small"}[way])
    return found


def fill(run: Training) -> Callable[[], None]:
    filler = run.project.models / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return filler.unlink


def make_read_only(run: Training) -> Callable[[], None]:
    """A file system with an open file cannot become read-only: between two starts of the replica none is."""

    def remount(how: str) -> bool:
        options = ["mount", "-o", f"remount,{how}", str(run.project.models)]
        return subprocess.run(options, capture_output=True).returncode == 0

    cluster.kill_trainer(run.project, "master")
    wait_until("it is read-only", lambda: remount("ro"), pause=0.02)
    return lambda: wait_until("it can be written", lambda: remount("rw"))


def delete_runs(run: Training) -> Callable[[], None]:
    shutil.rmtree(run.project.models / "runs")
    return lambda: None


def give_away(run: Training) -> Callable[[], None]:
    places = [run.project.models / "runs", *run.project.models.glob("runs/*")]
    before = [(place, place.stat()) for place in places]
    for place in places:
        os.chown(place, 0, 65534)
        place.chmod(0o700)

    def back() -> None:
        for place, owner in before:
            os.chown(place, owner.st_uid, owner.st_gid)
            place.chmod(owner.st_mode & 0o7777)

    return back


FAULTS = {
    "volume-full": fill,
    "volume-read-only": make_read_only,
    "volume-folder-deleted": delete_runs,
    "volume-of-somebody-else": give_away,
}
KEEPS_CHECKPOINT = set(FAULTS) - {"volume-folder-deleted"}


@pytest.mark.parametrize(("way", "row"), of_each_way(FAULTS))
def test_a_training_goes_on_when_its_volume_is_whole_again(
    clone: Project, undisturbed: tuple[float, float], trial: Trial, row: str
) -> None:
    for old in clone.models.glob("runs/*"):
        shutil.rmtree(old)  # else the disk is full too early
    with training.started(clone) as run:
        run.reaches(2, 0.2)
        epoch, step = run.progress
        with cluster.watched(clone, "master") as told:
            trial.strike(f"epoch {epoch}")
            mend = FAULTS[row](run)
            if row in KEEPS_CHECKPOINT:
                wait_until("the trainer says that it cannot use it", lambda: VOLUME_STATUS in told())
        mend()
        run.goes_on(step)
        trial.recovered()
        assert run.result() == undisturbed


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    """One bit in the middle, which is among the weights."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, flip], ids=lambda damage: damage.__name__)
def test_a_training_goes_on_from_the_checkpoint_before_a_damaged_one(
    clone: Project, undisturbed: tuple[float, float], damage: Callable[[bytes], bytes]
) -> None:
    for old in clone.models.glob("runs/*"):
        shutil.rmtree(old)
    with training.started(clone) as run:
        run.reaches(1, 0.2)
        # On a busy machine an epoch may be over before its process is found.
        trainer = cluster.trainer(clone, "master")
        run.reaches(3, 0.2)  # behind two checkpoints
        os.kill(trainer, signal.SIGSTOP)  # so that it writes no other one
        (checkpoint,) = clone.models.glob("runs/*/checkpoint.pt")
        aside = checkpoint.with_name(f"{checkpoint.name}.damaged")
        checkpoint.write_bytes(damage(checkpoint.read_bytes()))
        os.kill(trainer, signal.SIGKILL)
        wait_until("the damaged one is set aside", aside.exists)
        assert run.result() == undisturbed
