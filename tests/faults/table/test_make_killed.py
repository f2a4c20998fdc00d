"""`make up` from nothing, then `make down`, each killed with -9 at a random moment: the next one finishes the work."""

from __future__ import annotations

import hashlib
import os
import signal
import time

import pytest

from tests.e2e import processes
from tests.e2e.project import Project
from tests.faults.table import background, cluster, training
from tests.faults.table.background import Background
from tests.faults.table.rows import DOWN_PHASES, FROM_NOTHING, ROWS
from tests.faults.table.trial import Trial

# How long the phases last at least, in seconds: the moment is drawn from it.
LASTS_S = {"set-up": 2.0, "cluster": 10.0, "operator": 3.0, "image": 1.0, "wait": 5.0}
SHORT_S = 0.2
TRIES = range(ROWS["up-killed"].tries)

pytestmark = pytest.mark.slow(reason="a cluster made anew for each of twenty pairs")


@pytest.fixture(scope="module", params=TRIES)
def number(request: pytest.FixtureRequest) -> int:
    """Of the module, so that each `make up` is followed by its `make down`."""
    return int(request.param)


def kill(running: Background, *, leader_alone: bool) -> None:
    """kill -9 of every process, or of the leader alone: what make has started."""
    if not leader_alone:
        processes.kill(running.process)
        return
    (leader,) = processes.children(running.process.pid)
    os.kill(leader, signal.SIGKILL)
    running.ended()


def kill_in(running: Background, number: int, phases: tuple[str, ...], trial: Trial) -> None:
    """Kill at a random moment after one of `phases` has begun: in turns, and the other way in the next round."""
    phase, leader_alone = phases[number % len(phases)], (number + number // len(phases)) % 2 == 1
    running.reaches(phase)
    time.sleep(cluster.moment(phase, number).uniform(0, LASTS_S.get(phase, SHORT_S)))
    hit = running.phase
    kill(running, leader_alone=leader_alone)
    trial.strike(hit)
    assert hit != "ended", running.output


@pytest.mark.row("up-killed")
def test_make_up_finishes_what_a_killed_one_left(
    project: Project, undisturbed_short: tuple[float, float], trial: Trial, number: int
) -> None:
    assert project.make("down").returncode == 0
    with training.started(project, training.SHORT) as run:
        kill_in(run.make, number, FROM_NOTHING, trial)
        project.up()
        trial.recovered()
        assert run.metrics() == undisturbed_short


@pytest.mark.row("down-killed")
def test_make_down_finishes_what_a_killed_one_left(project: Project, trial: Trial, number: int) -> None:
    project.up()
    model = project.models / "mnist_cnn.pt"
    before = hashlib.sha256(model.read_bytes()).digest()
    with background.make(project, "down") as running:
        kill_in(running, number, DOWN_PHASES, trial)
    done = project.make("down")
    assert done.returncode == 0, done.stdout
    trial.recovered()
    left = ("docker", "ps", "--all", "--quiet", "--filter", f"name=^{project.cluster}-")
    assert not project.run(*left).stdout
    assert hashlib.sha256(model.read_bytes()).digest() == before
