"""A machine inside this one loses its power, or its engine's disk is full: the next command is enough."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import pytest

from tests.e2e import clones
from tests.e2e.waiting import wait_until
from tests.faults.table import background, cluster, machine, training
from tests.faults.table.background import Background
from tests.faults.table.machine import ProjectInside
from tests.faults.table.rows import DOWN_PHASES, ENGINE_DISK_PHASES, POWER_PHASES
from tests.faults.table.test_disk_full import SAID
from tests.faults.table.trial import Trial
from toolchain.machine.engine import Engine

# How long these phases last at least, in seconds: the moment is drawn from it. The others take turns, line by line.
LASTS_S = {"set-up": 2.0, "cluster": 10.0, "wait": 5.0}

pytestmark = pytest.mark.slow(reason="an engine of its own, and a cluster made anew for each phase")


@pytest.fixture(scope="module")
def inside(engine: Engine) -> Iterator[ProjectInside]:
    """A clone on a machine of its own that has the images."""
    with clones.owned("power") as folder, machine.booted(folder / "machine") as made:
        clone = clones.clone(folder / "trainstack", cluster=folder.name)
        project = ProjectInside(clone.root, clone.cluster, machine=made)
        machine.give_images(engine, project)
        clones.STANDING.append(project)
        try:
            yield project
        finally:
            clones.STANDING.remove(project)


@pytest.fixture(scope="module")
def undisturbed(inside: ProjectInside) -> tuple[float, float]:
    """Accuracy and loss of the training when nothing happens. The stack is up from here on."""
    with training.started(inside, training.SHORT) as run:
        return run.result()


def comes_to(phase: str, running: Background) -> None:
    """Return while it works on `phase`. An AssertionError where it ends without."""

    def works_on_it() -> bool:
        found = running.phase
        assert found != "ended", running.output
        return found == phase

    wait_until(f"make works on {phase}", works_on_it, pause=0.05)


@pytest.mark.row("disk-full-engine")
@pytest.mark.parametrize("phase", ENGINE_DISK_PHASES)
def test_a_full_disk_of_the_engine_is_said_and_mended_by_room(
    inside: ProjectInside, undisturbed: tuple[float, float], trial: Trial, phase: str
) -> None:
    """A training that writes little more may end well without a byte left."""
    assert inside.make("down").returncode == 0
    with training.started(inside, training.SHORT, restarts=1) as run:
        comes_to(phase, run.make)
        with inside.machine.full_disk():
            trial.strike(run.make.phase)
            status = run.make.ended()
        assert status != 0 or phase == "wait", run.make.output
        assert status == 0 or run.make.says(SAID)
    inside.up()
    trial.recovered()
    assert run.metrics() == undisturbed


def cut_power_in(phase: str, running: Background, project: ProjectInside, trial: Trial) -> None:
    """At a random moment of `phase`; the machine is started again. What had been written to files stays."""
    comes_to(phase, running)
    time.sleep(cluster.moment("power cut", phase).uniform(0, LASTS_S.get(phase, 0)))
    hit = running.phase
    project.machine.cut_power()
    trial.strike(hit)
    running.ended()
    project.machine.boot()
    assert hit == phase, running.output


@pytest.mark.row("power-cut-up")
@pytest.mark.parametrize("phase", POWER_PHASES)
def test_make_up_finishes_what_a_power_cut_left(
    inside: ProjectInside, undisturbed: tuple[float, float], trial: Trial, phase: str
) -> None:
    assert inside.make("down").returncode == 0
    with training.started(inside, training.SHORT) as run:
        cut_power_in(phase, run.make, inside, trial)
        inside.up()
        trial.recovered()
        assert run.metrics() == undisturbed


@pytest.mark.row("power-cut-down")
@pytest.mark.parametrize("phase", DOWN_PHASES)
def test_make_down_finishes_what_a_power_cut_left(inside: ProjectInside, trial: Trial, phase: str) -> None:
    inside.up()
    model = inside.models / "mnist_cnn.pt"
    before = hashlib.sha256(model.read_bytes()).digest()
    with background.make(inside, "down") as running:
        cut_power_in(phase, running, inside, trial)
    done = inside.make("down")
    assert done.returncode == 0, done.stdout
    trial.recovered()
    assert not any(inside.machine.containers.iterdir())
    assert hashlib.sha256(model.read_bytes()).digest() == before
