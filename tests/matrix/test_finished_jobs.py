"""A finished job leaves when its time has come, and nothing of what the stack has is drift, by the real Pulumi."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.waiting import wait_until
from tests.matrix.kind_project import UNCHANGED
from tests.matrix.played_operator import PlayedOperator
from tests.matrix.project import AppliedProject, UpError
from tests.matrix.test_drift import delete_job, glanced  # noqa: F401 - a fixture
from toolchain.operating import state

HOUR_S = 3600
LEAVES = {"job.runPolicy.ttlSecondsAfterFinished": HOUR_S}
SAID = "mnist: the job finished, and runPolicy.ttlSecondsAfterFinished had it deleted; its run {} stays"


@pytest.fixture
def later(operator: PlayedOperator) -> Iterator[Callable[[], None]]:
    """What lets an hour pass, for the operator."""

    def pass_by() -> None:
        operator.ahead_s = HOUR_S + 1

    yield pass_by
    operator.ahead_s = 0


def jobs(project: AppliedProject) -> list[str]:
    return [each for each in project.objects() if each.startswith("PyTorchJob/")]


def leave(project: AppliedProject, later: Callable[[], None]) -> None:
    later()
    wait_until("the job has left", lambda: not jobs(project))


def test_a_finished_job_leaves_and_is_not_made_again(
    project: AppliedProject,
    operator: PlayedOperator,
    later: Callable[[], None],
    glanced: Callable[[], list[str]],  # noqa: F811 - the fixture
) -> None:
    project.up(**LEAVES)
    outputs = project.outputs()
    (run,) = state.runs(project.deployment())
    leave(project, later)
    before = project.deployment()
    assert project.drifted() == []
    assert glanced() == []
    assert project.deployment() == before, "a look changes nothing"
    plain = project.pulumi("preview", "--stack", project.stack).stdout
    assert re.search(r"^ +- 1 to delete$", plain, re.MULTILINE), "without a refresh the state forgets it now"
    assert "to create" not in plain
    for _ in range(2):
        said = project.apply()
        assert SAID.format(run) in said
        assert UNCHANGED.search(said), said
        assert jobs(project) == []
        assert project.outputs() == outputs
        assert state.runs(project.deployment()) == [run]
    assert project.drifted() == []
    refreshed = project.pulumi("refresh", "--yes", "--skip-preview", "--stack", project.stack)
    assert refreshed.returncode == 0, refreshed.stdout
    assert UNCHANGED.search(refreshed.stdout), refreshed.stdout
    shown = project.pulumi("preview", "--expect-no-changes", "--stack", project.stack)
    assert shown.returncode == 0, shown.stdout
    assert project.outputs() == outputs
    operator.ahead_s = 0
    project.up(**LEAVES, **{"job.rerun": 1})
    assert len(jobs(project)) == 1
    assert state.runs(project.deployment()) != [run]


@pytest.mark.slow(reason="five updates; the test above has the usual way")
def test_a_job_that_had_not_finished_is_missed(project: AppliedProject) -> None:
    suspended = {**LEAVES, "job.runPolicy.suspend": True}
    project.up(**suspended)
    delete_job(project)
    assert any(each.startswith("create: PyTorchJob") for each in project.drifted())
    project.apply()
    assert len(jobs(project)) == 1


@pytest.mark.slow(reason="four updates")
def test_a_run_is_there_again_after_another_one_has_failed(
    project: AppliedProject, operator: PlayedOperator, later: Callable[[], None]
) -> None:
    """The state tells of a run that had to go for the other one, and its job has left."""
    project.up(**LEAVES)
    outputs = project.outputs()
    leave(project, later)
    project.apply()
    operator.ahead_s = 0
    with pytest.raises(UpError):
        project.up(**LEAVES, **{"job.rerun": 1, "job.pod.spec.priorityClassName": "absent"})
    leave(project, later)
    operator.ahead_s = 0
    project.up(**LEAVES)
    assert project.outputs() == outputs
    project.destroy()
    assert "Namespace/kubeflow" not in project.settled()
    project.up()
