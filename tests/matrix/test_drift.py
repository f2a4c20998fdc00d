"""Drift: what somebody has changed in the cluster is named, by the real Pulumi on an API server without nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client

from tests.matrix.played_operator import GROUP, PLURAL, VERSION
from tests.matrix.project import AppliedProject
from toolchain.operating import live_objects, quick_drift, state, status, user_backend
from toolchain.steps import SetupError

NAMESPACE = "kubeflow"
VOLUME = "trainstack-matrix-models"
SLOW = pytest.mark.slow(reason="three previews each; one object stands for the others in CI")
Edit = Callable[[AppliedProject], None]


@pytest.fixture
def found(project: AppliedProject) -> Callable[[], list[str]]:
    """What `make drift` would print of the standing stack."""
    project.stand()
    return project.drifted


@pytest.fixture
def glanced(project: AppliedProject, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What `make status` would say of the objects."""
    monkeypatch.setattr(user_backend, "backend", lambda: None)
    monkeypatch.setattr(state, "deployment", lambda stack: project.deployment())
    monkeypatch.setattr(live_objects, "lookup", lambda *_: lambda manifest: None)

    def lines() -> list[str]:
        objects = list(project.objects().values())
        found, unknown = quick_drift.of_objects({}, state.Access(""), project.stack, status.LISTED, objects)
        assert not unknown
        return found

    return lines


def resize_volume(project: AppliedProject) -> None:
    patch: dict[str, Any] = {"spec": {"capacity": {"storage": "11Gi"}}}
    client.CoreV1Api(project.connection).patch_persistent_volume(VOLUME, patch)


def shorten_job(project: AppliedProject) -> None:
    patch = {"spec": {"runPolicy": {"activeDeadlineSeconds": 60}}}
    jobs = client.CustomObjectsApi(project.connection)
    jobs.patch_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "mnist", patch)


def delete_job(project: AppliedProject) -> None:
    jobs = client.CustomObjectsApi(project.connection)
    jobs.delete_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "mnist")


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
    """And set right by the next update, whoever has set the fields."""
    assert found() == []
    assert glanced() == []
    state = project.deployment()
    edit(project)
    told = found()
    assert any(line.endswith(named) for line in told), told
    (seen,) = glanced()
    assert seen.startswith(glance)
    assert project.deployment() == state, "a look changes nothing"
    project.up()
    assert found() == []
    assert glanced() == []


OTHERS = {"server": "https://reviewed.example", "id": "3f8a1c52-7d4e-4b09-9c61-2f5e8d7a0b13"}


@pytest.mark.parametrize("key", OTHERS)
def test_of_another_cluster_than_the_stack_names_nothing_is_told(project: AppliedProject, key: str) -> None:
    """No drift, and no want of any: neither would be true of the cluster that was reviewed."""
    project.stand()
    state = project.deployment()
    server = project.connection.configuration.host
    namespace: Any = project.core.read_namespace("kube-system")
    project.configured(**{f"cluster.{key}": OTHERS[key]})
    with pytest.raises(SetupError) as refused:
        project.drifted()
    said = str(refused.value)
    assert f"trainstack:cluster.{key} = {OTHERS[key]!r}" in said
    assert {"server": server, "id": namespace.metadata.uid}[key] in said
    assert project.deployment() == state
