"""Interrupted at any moment, `make up` finishes when it is called again: nothing has to be repaired by hand."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.e2e import processes
from tests.e2e.project import Project
from tests.e2e.waiting import HANG_S, wait_until
from tests.faults.table.trial import Trial

JOB = "pytorch-simple"


def set_up(project: Project) -> bool:
    """It works in the folder."""
    lock = project.root / ".trainstack" / "lock"
    return lock.exists() and bool(lock.read_text())


def node(project: Project) -> bool:
    """kind has made the node's container, and Kubernetes is not up in it."""
    running = ("docker", "ps", "--quiet", "--filter", f"name=^{project.cluster}-control-plane$")
    return set_up(project) and bool(project.run(*running).stdout)


def there(project: Project, kind: str, name: str) -> bool:
    words = ("kubectl", "get", kind, name, "--namespace", "kubeflow", "--ignore-not-found", "--output=name")
    return project.has_cluster and bool(project.run(*words, check=False).stdout)


def operator(project: Project) -> bool:
    """The operator is not ready yet."""
    return there(project, "deployment", "training-operator")


def job(project: Project) -> bool:
    """The job has not run yet."""
    return there(project, "pytorchjob", JOB)


Moment = Callable[[Project], bool]
MOMENTS: list[Moment] = [set_up, node, operator, job]


def interrupt(project: Project, moment: Moment, end: Callable[[subprocess.Popen[bytes]], object]) -> None:
    """Start `make up`, and `end` it once `moment` has come. An AssertionError where it has ended by itself before."""
    log = project.root / ".trainstack" / "interrupted.log"
    (project.root / ".trainstack" / "lock").unlink(missing_ok=True)
    with project.making("up", *project.data, log=log) as running:

        def has_come() -> bool:
            assert running.poll() is None, f"ended before {moment.__name__}:\n{log.read_text()}"
            return moment(project)

        wait_until(moment.__name__, has_come)
        end(running)


def ctrl_c(running: subprocess.Popen[bytes]) -> None:
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(HANG_S) != 0


# One after the other on what the one before has left, as on a bad day; `up` is the run that finishes.
@pytest.mark.parametrize(
    ("moment", "end"),
    [
        pytest.param(node, processes.kill, id="kill-9 while the node starts"),
        pytest.param(operator, ctrl_c, id="Ctrl-C while the operator starts"),
    ],
)
def test_make_up_is_interrupted(project: Project, moment: Moment, end: Callable[..., object]) -> None:
    interrupt(project, moment, end)
    wait_until("nothing of it runs any more", lambda: not processes.working_in(project.root))


def test_make_up_finishes_what_interrupted_runs_left(project: Project) -> None:
    finished = project.up(*project.data)
    assert float(finished["accuracy"]) >= 0.95


@pytest.mark.slow(reason="four clusters, made anew for each; `make test` interrupts twice on one")
@pytest.mark.row("up-interrupted")
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
def test_make_up_finishes_what_one_interrupted_run_left(
    project: Project, trial: Trial, moment: Moment
) -> None:
    assert project.make("down").returncode == 0
    interrupt(project, moment, ctrl_c)
    trial.strike(moment.__name__)
    test_make_up_finishes_what_interrupted_runs_left(project)
    trial.recovered()
    project.run("pulumi", "preview", "--expect-no-changes", "--stack", project.stack)
