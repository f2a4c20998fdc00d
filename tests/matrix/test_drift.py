"""Drift: what somebody has changed in the cluster is named, by the real Pulumi on an API server without nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client

from tests.matrix.played_operator import GROUP, PLURAL, VERSION
from tests.matrix.project import AppliedProject
from toolchain.operating import deviations, live_objects, recovery, state, status, user_backend

NAMESPACE = "kubeflow"
VOLUME = "trainstack-matrix-models"
ENFORCED = "pod-security.kubernetes.io/enforce"
SLOW = pytest.mark.slow(reason="three previews each; one object stands for the others in CI")
Edit = Callable[[AppliedProject, bool], None]


@pytest.fixture
def found(project: AppliedProject) -> Callable[[], list[str]]:
    """What `make drift` would print of the standing stack."""
    project.stand()
    return project.drifted


@pytest.fixture
def glanced(project: AppliedProject, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What `make status` would say of the objects."""
    monkeypatch.setattr(user_backend, "backend", lambda: None)
    monkeypatch.setattr(recovery, "deployment", lambda stack: exported(project))
    monkeypatch.setattr(live_objects, "lookup_in", lambda *_: lambda manifest: None)

    def lines() -> list[str]:
        objects = list(project.objects().values())
        return deviations.of_objects({}, state.Access(""), project.stack, status.LISTED, objects)

    return lines


def exported(project: AppliedProject) -> Any:
    done = project.pulumi("stack", "export", "--stack", project.stack)
    return json.loads(done.stdout)["deployment"]


def resize_volume(project: AppliedProject, changed: bool) -> None:
    patch: dict[str, Any] = {"spec": {"capacity": {"storage": "11Gi" if changed else "10Gi"}}}
    client.CoreV1Api(project.connection).patch_persistent_volume(VOLUME, patch)


def shorten_job(project: AppliedProject, changed: bool) -> None:
    patch = {"spec": {"runPolicy": {"activeDeadlineSeconds": 60 if changed else 3600}}}
    jobs = client.CustomObjectsApi(project.connection)
    jobs.patch_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "mnist", patch)


def delete_job(project: AppliedProject, changed: bool) -> None:
    if changed:
        jobs = client.CustomObjectsApi(project.connection)
        jobs.delete_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "mnist")
    else:
        project.up()


@pytest.mark.parametrize(
    ("edit", "named", "glance"),
    [
        (
            shorten_job,
            "PyTorchJob PyTorchJob/mnist (spec.runPolicy.activeDeadlineSeconds: 60 -> 3600)",
            "PyTorchJob/kubeflow/mnist spec.runPolicy.activeDeadlineSeconds is 60, 3600 was applied",
        ),
        pytest.param(
            resize_volume,
            f'PersistentVolume PersistentVolume/{VOLUME} (spec.capacity.storage: "11Gi" -> "10Gi")',
            f'PersistentVolume/{VOLUME} spec.capacity.storage is "11Gi", "10Gi" was applied',
            marks=SLOW,
        ),
        pytest.param(
            delete_job, "PyTorchJob PyTorchJob/mnist", "PyTorchJob/kubeflow/mnist is missing", marks=SLOW
        ),
    ],
)
def test_what_somebody_has_changed_is_named(
    project: AppliedProject,
    found: Callable[[], list[str]],
    glanced: Callable[[], list[str]],
    edit: Edit,
    named: str,
    glance: str,
) -> None:
    """The edits are taken back as they were made: Pulumi applies no field that another client has set."""
    assert found() == []
    assert glanced() == []
    state = exported(project)
    edit(project, True)
    told = found()
    assert any(line.endswith(named) for line in told), told
    (seen,) = glanced()
    assert seen.startswith(glance)
    assert exported(project) == state, "a look changes nothing"
    edit(project, False)
    assert found() == []
    assert glanced() == []


def relabel(project: AppliedProject, value: str | None) -> None:
    patch = {"metadata": {"labels": {ENFORCED: value}}}
    client.CoreV1Api(project.connection).patch_namespace(NAMESPACE, patch)


def enforced(project: AppliedProject) -> str | None:
    namespace: Any = client.CoreV1Api(project.connection).read_namespace(NAMESPACE)
    label: str | None = namespace.metadata.labels.get(ENFORCED)
    return label


def test_an_update_takes_back_what_its_runbook_says(
    project: AppliedProject,
    found: Callable[[], list[str]],
    glanced: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """docs/runbooks/drift.md: a field that another client has set is its own until it is taken by force."""
    assert found() == []
    before = enforced(project)
    relabel(project, "privileged")
    (seen,) = glanced()
    assert seen == f'Namespace/{NAMESPACE} metadata.labels.{ENFORCED} is "privileged", "{before}" was applied'
    assert f".metadata.labels.{ENFORCED}" in project.refused()
    assert enforced(project) == "privileged"
    with monkeypatch.context() as patch:
        patch.setitem(project.environment, "PULUMI_K8S_ENABLE_PATCH_FORCE", "true")
        project.up()
    assert enforced(project) == before
    assert glanced() == []

    relabel(project, None)
    (seen,) = glanced()
    assert seen.endswith(f'{ENFORCED} is not there, "{before}" was applied: `make up` restores it')
    project.up()
    assert enforced(project) == before
    assert found() == glanced() == []
