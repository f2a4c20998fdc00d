"""The API server killed at a random moment of each phase of `make up`, and of `make down`."""

from __future__ import annotations

import time

import pytest

from tests.e2e.project import Project
from tests.e2e.waiting import wait_until
from tests.faults.table import background, cluster, training
from tests.faults.table.rows import ROWS, UP_PHASES
from tests.faults.table.training import SHORT, TRAINING
from tests.faults.table.trial import Trial

# How long the phases last at least, in seconds: the moment is drawn from it.
LASTS_S = {"set-up": 4.0, "refresh": 4.0, "operator": 2.0, "image": 0.5, "job": 0.1, "wait": 10.0}
TRIES = [
    pytest.param(phase, number, id=f"{phase}-{number}")
    for phase in UP_PHASES
    for number in range(ROWS["api-server-killed-up"].tries // len(UP_PHASES))
]


def give_work(project: Project, phase: str) -> None:
    """Let the next `make up` have something to do in `phase`."""
    if phase == "operator":
        project.run("kubectl", "--namespace", "kubeflow", "delete", "deployment", "training-operator")
    if phase == "image":
        project.run("docker", "rm", "--force", "--volumes", f"{project.cluster}-registry")


@pytest.mark.slow(reason="a training each")
@pytest.mark.row("api-server-killed-up")
@pytest.mark.parametrize(("phase", "number"), TRIES)
def test_make_up_waits_for_its_api_server(
    project: Project, request: pytest.FixtureRequest, trial: Trial, phase: str, number: int
) -> None:
    kind, expected = (TRAINING, "undisturbed") if phase == "wait" else (SHORT, "undisturbed_short")
    undisturbed = request.getfixturevalue(expected)
    cluster.forget_restarts(project)
    give_work(project, phase)
    with training.started(project, kind) as run:
        if phase != "set-up":
            run.make.reaches(phase)
        time.sleep(cluster.moment(f"api-server {phase}", number).uniform(0, LASTS_S[phase]))
        cluster.kill(project, "kube-apiserver")
        trial.strike(run.make.phase)
        wait_until("it is away", lambda: not cluster.api_answers(project))
        wait_until("it answers", lambda: cluster.api_answers(project))
        trial.recovered()
        assert run.result() == undisturbed


@pytest.mark.slow(reason="makes the cluster anew")
@pytest.mark.row("api-server-killed-down")
@pytest.mark.parametrize("number", range(ROWS["api-server-killed-down"].tries))
def test_make_down_needs_no_api_server(project: Project, trial: Trial, number: int) -> None:
    project.stand_up()
    with background.make(project, "down") as running:
        running.reaches("destroy")
        cluster.kill(project, "kube-apiserver")
        trial.strike(running.phase)
        assert running.ended() == 0, running.output
        trial.recovered()
    assert not project.run("docker", "ps", "--all", "--quiet", "--filter", f"name=^{project.cluster}-").stdout
