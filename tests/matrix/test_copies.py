"""Copies of a stack's objects, labels and all, are somebody else's: asked of a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from infra.objects.labels import OWNER, is_copied
from standins.tests.apiserver import ApiServer
from tests.e2e.waiting import wait_until
from tests.matrix import entries
from tests.matrix.played_operator import GROUP, PLURAL, VERSION, PlayedOperator
from tests.matrix.project import AppliedProject, applied
from toolchain.operating import status

NAMESPACE, JOB = "kubeflow", "mnist"
ONE = {**entries.JOB, "name": JOB}
FIRST: dict[str, Any] = {"job": None, "jobs": [ONE]}
BOTH: dict[str, Any] = {"job": None, "jobs": [ONE, {**ONE, "name": "second"}]}


@pytest.fixture(scope="module")
def project(
    api_server: ApiServer, operator: PlayedOperator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AppliedProject]:
    with applied(tmp_path_factory.mktemp("copies"), api_server.kubeconfig) as made:
        made.up(**FIRST)
        yield made


def job(project: AppliedProject, name: str = JOB) -> dict[str, Any]:
    found: Any = project.jobs.get_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, name)
    return dict(found)


def copy(project: AppliedProject, name: str) -> dict[str, Any]:
    """As `kubectl get -o yaml`, another name, and `kubectl create` make it."""
    found = job(project)
    metadata = {"name": name, "namespace": NAMESPACE, "labels": found["metadata"]["labels"]}
    return {**{key: found[key] for key in ("apiVersion", "kind", "spec")}, "metadata": metadata}


def create(project: AppliedProject, manifest: dict[str, Any]) -> None:
    project.jobs.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, manifest)


def delete(project: AppliedProject, name: str) -> None:
    project.jobs.delete_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, name)


def test_every_object_of_the_stack_is_told_from_a_copy(project: AppliedProject) -> None:
    ours = [each for each in project.objects().values() if OWNER in (each["metadata"].get("labels") or {})]
    ours = [each for each in ours if each["kind"] != "Pod"]
    assert {each["kind"] for each in ours} >= {"PersistentVolume", "PersistentVolumeClaim", "PyTorchJob"}
    for each in ours:
        assert each["metadata"]["managedFields"]
        assert not is_copied(each)


def test_a_copy_under_a_name_that_the_stack_wants_is_refused_by_name(project: AppliedProject) -> None:
    create(project, copy(project, "second"))
    try:
        uid = job(project, "second")["metadata"]["uid"]
        assert is_copied(job(project, "second"))
        project.configured(**BOTH)
        told = project.refused()
        assert f"PyTorchJob/{NAMESPACE}/second (stack matrix" in told
        assert "a copy" in told
        assert job(project, "second")["metadata"]["uid"] == uid
    finally:
        delete(project, "second")


def test_a_copy_in_the_place_of_the_stacks_own_object_is_refused_by_name(project: AppliedProject) -> None:
    """The refresh of the same update takes it for the stack's: the program reads the state of before."""
    theirs = copy(project, JOB)
    delete(project, JOB)
    wait_until("no pod is left", lambda: not any(each.startswith("Pod/") for each in project.objects()))
    create(project, theirs)
    before = job(project)["metadata"]
    project.configured(**FIRST)
    for _ in range(2):
        told = project.refused()
        assert f"PyTorchJob/{NAMESPACE}/{JOB} (stack matrix" in told
        assert "a copy" in told
        after = job(project)["metadata"]
        assert (after["uid"], after["labels"]) == (before["uid"], before["labels"])
    delete(project, JOB)
    wait_until("no pod is left", lambda: not any(each.startswith("Pod/") for each in project.objects()))
    project.up(**FIRST)
    assert not is_copied(job(project))


def test_status_does_not_count_a_copy_for_the_stacks_job(project: AppliedProject) -> None:
    theirs = copy(project, "second")
    create(project, theirs)
    found = job(project, "second")
    delete(project, "second")
    findings = status.inspect_objects([found])
    assert status.overall(findings) is status.Health.NOT
    said = [each.said for each in findings if each.health is status.Health.NOT]
    assert f"PyTorchJob/{NAMESPACE}/second has this stack's labels, but is somebody's copy" in said
    assert "no job with this stack's mark: run `make up`" in said
