"""The Job that prepares the volume's folder failed once: when nothing is in its way, the next update makes it anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes import client

from tests.e2e.waiting import wait_until
from tests.matrix.project import AppliedProject, UpError

NAMESPACE = "kubeflow"
NAME = "trainstack-matrix-models-prepare"
PREPARED: dict[str, Any] = {"storage.prepare": True}
# Each condition of a Job that its controller has given up.
GIVEN_UP = ("FailureTarget", "Failed")


@contextmanager
def nothing_starts(project: AppliedProject) -> Iterator[None]:
    """No pod can be made in the namespace, and the Job's controller, played, gives the Job up at once."""
    core: Any = project.core
    batch: Any = client.BatchV1Api(project.connection)
    quota: Any = {"metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}}}
    core.create_namespaced_resource_quota(NAMESPACE, quota)
    wait_until(
        "the quota holds",
        lambda: bool(core.read_namespaced_resource_quota("no-pods", NAMESPACE).status.hard),
        pause=0.2,
    )
    over = threading.Event()

    def give_up() -> None:
        while not over.wait(0.2):
            for each in batch.list_namespaced_job(NAMESPACE).items:
                if each.status.start_time and not each.status.conditions:
                    ended = [
                        {"type": name, "status": "True", "reason": "DeadlineExceeded"} for name in GIVEN_UP
                    ]
                    batch.patch_namespaced_job_status(
                        each.metadata.name, NAMESPACE, {"status": {"conditions": ended}}
                    )

    played = threading.Thread(target=give_up)
    played.start()
    try:
        yield
    finally:
        over.set()
        played.join()
        core.delete_namespaced_resource_quota("no-pods", NAMESPACE)


def job_of(project: AppliedProject) -> tuple[str, set[str]]:
    """Its uid, and the conditions that it has."""
    batch: Any = client.BatchV1Api(project.connection)
    found = batch.read_namespaced_job(NAME, NAMESPACE)
    return found.metadata.uid, {each.type for each in found.status.conditions or []}


@pytest.mark.slow(reason="a Job that fails, and updates; the stand-in plugin has tests of the annotation")
def test_a_job_that_failed_is_made_anew_and_one_that_is_done_stays(project: AppliedProject) -> None:
    with nothing_starts(project), pytest.raises(UpError, match="failed to initialize"):
        project.up(**PREPARED)
    failed, conditions = job_of(project)
    assert "Failed" in conditions

    project.up(**PREPARED)

    made, conditions = job_of(project)
    assert made != failed
    assert "Complete" in conditions
    project.up("--expect-no-changes", **PREPARED)
    assert job_of(project)[0] == made
