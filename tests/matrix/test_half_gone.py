"""Claims and volumes that somebody deleted half way, and claims of others: one run of ours puts it right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import NotFoundException

from infra.config import Stack
from infra.config.load import from_file
from infra.objects.api import ApiAddress
from infra.objects.labels import STACK
from infra.release_volumes import HeldError, Releasing
from standins.tests.kubelet import NODE
from tests.matrix.judging import identities, uid, uids
from tests.matrix.project import AppliedProject, UpError, others_pod

NAMESPACE = "kubeflow"
NAME = "trainstack-matrix-models"
CLAIM, VOLUME = f"PersistentVolumeClaim/{NAMESPACE}/{NAME}", f"PersistentVolume//{NAME}"


def stack_of(project: AppliedProject) -> Stack:
    return from_file(Path(project.stack_file))


def release(project: AppliedProject) -> list[str]:
    shown: list[str] = []
    Releasing(stack_of(project), ApiAddress(project.environment["KUBECONFIG"]), shown.append).run()
    return shown


def test_a_whole_stack_is_left_alone(project: AppliedProject) -> None:
    before = identities(project.settled())
    assert release(project) == []
    assert identities(project.objects()) == before


def test_a_claim_deleted_under_finished_pods_is_made_again(project: AppliedProject) -> None:
    project.core.delete_namespaced_persistent_volume_claim(NAME, NAMESPACE)
    found = project.objects()
    assert "deletionTimestamp" in found[CLAIM]["metadata"], "the pods hold it"
    assert len(release(project)) == 2, "the job is deleted, the volume forgets its claim"
    project.up()
    project.settled()
    assert uid(project.objects()[VOLUME]) in uids(found), "the volume stayed"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("claim_too", "policy"), [(False, "Delete"), (False, "Retain"), (True, "Retain"), (True, "Delete")]
)
def test_a_volume_deleted_under_its_claim_is_made_again(
    project: AppliedProject, claim_too: bool, policy: str
) -> None:
    """Also where somebody has had its files deleted with it: they stay."""
    folder = project.objects()[VOLUME]["spec"]["hostPath"]["path"]
    project.core.patch_persistent_volume(NAME, {"spec": {"persistentVolumeReclaimPolicy": policy}})
    project.core.delete_persistent_volume(NAME)
    if claim_too:
        project.core.delete_namespaced_persistent_volume_claim(NAME, NAMESPACE)
    found = project.objects()
    assert "deletionTimestamp" in found[VOLUME]["metadata"], "the claim holds it"
    shown = release(project)
    assert VOLUME not in project.objects(), shown
    project.up()
    made = project.settled()[VOLUME]
    assert uid(made) not in uids(found)
    assert made["spec"]["hostPath"]["path"] == folder
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert project.drifted() == []


@pytest.fixture
def notebook(project: AppliedProject) -> Iterator[None]:
    """Somebody else's pod, which mounts the claim of the models."""
    project.core.create_namespaced_pod(NAMESPACE, others_pod("notebook", NAME, NODE))
    try:
        yield
    finally:
        # The client asks again where the connection broke behind a deletion that was done.
        with suppress(NotFoundException):
            project.core.delete_namespaced_pod("notebook", NAMESPACE, grace_period_seconds=0)


def test_a_claim_held_by_others_is_said(
    project: AppliedProject, notebook: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.core.delete_namespaced_persistent_volume_claim(NAME, NAMESPACE)
    with monkeypatch.context() as briefly:
        briefly.setattr("infra.release_volumes.GONE_S", 3)
        with pytest.raises(HeldError, match=r"held by: .*notebook"):
            release(project)
    project.core.delete_namespaced_pod("notebook", NAMESPACE, grace_period_seconds=0)
    release(project)
    project.up()
    project.settled()


def test_no_other_claim_takes_the_volume(project: AppliedProject) -> None:
    """Also while our own is away: the volume is bound to it beforehand."""
    labels = {"matchLabels": {"type": "trainstack", "name": NAME}}
    spec = {
        "storageClassName": "manual",
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "selector": labels,
    }
    theirs: Any = {"metadata": {"name": "theirs"}, "spec": spec}
    project.core.create_namespaced_persistent_volume_claim(NAMESPACE, theirs)
    try:
        project.core.delete_namespaced_persistent_volume_claim(NAME, NAMESPACE)
        release(project)
        project.up()
        found = project.objects()
        assert found[VOLUME]["spec"]["claimRef"]["name"] == NAME
        assert found[f"PersistentVolumeClaim/{NAMESPACE}/theirs"]["status"]["phase"] == "Pending"
    finally:
        project.core.delete_namespaced_persistent_volume_claim("theirs", NAMESPACE)
    assert found[VOLUME]["metadata"]["labels"][STACK] == "matrix"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "change",
    [
        {"storage.request": "5Gi"},
        {"storage.claim": "other-claim"},
        {"storage.volume": "other-volume", "storage.claim": NAME},
        {"storage.kind": "nfs", "storage.nfsServer": "nfs.example", "storage.nfsPath": "/models"},
    ],
)
def test_a_change_that_others_pods_would_hold_up_is_refused(
    project: AppliedProject, notebook: None, change: dict[str, Any]
) -> None:
    """Every key of the section: tests/unit/infra/test_claim_users.py."""
    before = identities(project.settled())
    with pytest.raises(UpError, match=r"(?s)trainstack:storage.*delete pod notebook"):
        project.up(**change)
    assert identities(project.objects()) == before


def test_a_change_in_place_is_made_beside_others_pods(project: AppliedProject, notebook: None) -> None:
    project.up(**{"storage.labels": {"team": "a"}})
    project.up()
    project.settled()
    assert project.core.read_namespaced_pod("notebook", NAMESPACE), "others' pod is left alone"
