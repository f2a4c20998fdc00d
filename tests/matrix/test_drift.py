"""Drift: what somebody has changed in the cluster is named, by the real Pulumi on an API server without nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client

from tests.matrix.played_operator import GROUP, PLURAL, VERSION
from tests.matrix.project import AppliedProject

NAMESPACE = "kubeflow"
VOLUME = "trainstack-matrix-models"
SLOW = pytest.mark.slow(reason="three previews each; one object stands for the others in CI")
Edit = Callable[[AppliedProject, bool], None]


@pytest.fixture
def found(project: AppliedProject) -> Callable[[], list[str]]:
    """What `make drift` would print of the standing stack."""
    project.stand()
    return project.drifted


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
    ("edit", "named"),
    [
        (shorten_job, "PyTorchJob PyTorchJob/mnist (spec.runPolicy.activeDeadlineSeconds: 60 -> 3600)"),
        pytest.param(
            resize_volume,
            f'PersistentVolume PersistentVolume/{VOLUME} (spec.capacity.storage: "11Gi" -> "10Gi")',
            marks=SLOW,
        ),
        pytest.param(delete_job, "PyTorchJob PyTorchJob/mnist", marks=SLOW),
    ],
)
def test_what_somebody_has_changed_is_named(
    project: AppliedProject, found: Callable[[], list[str]], edit: Edit, named: str
) -> None:
    """The edits are taken back as they were made: Pulumi applies no field that another client has set."""
    assert found() == []
    state = exported(project)
    edit(project, True)
    told = found()
    assert any(line.endswith(named) for line in told), told
    assert exported(project) == state, "a look changes nothing"
    edit(project, False)
    assert found() == []
