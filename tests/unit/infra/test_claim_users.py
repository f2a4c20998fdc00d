"""Whose pods mount a claim, and which changes delete it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from infra import decision, volumes
from infra.config import ConfigError, Stack
from infra.config.data_sets import DataSet
from infra.config.storage import StorageConfig
from infra.objects import stack_state
from infra.objects.job_kinds import OF_API, PYTORCHJOB, TRAINJOB
from infra.objects.kinds import title
from infra.objects.labels import MANAGED_BY, OF_JOB, OF_JOBSET
from infra.objects.stack_state import StackState
from storage.manifests import Manifest, manifests
from tests.unit.infra.objects.played_api import Request, listed, look, play
from tests.unit.infra.samples import stack

IMAGE = {"reference": "x:1", "unpinned": True}
MODELS = "trainstack-dev-models"
FOLDER, EXPORT = (
    DataSet.model_validate({"path": "/data", **each})
    for each in (
        {"folder": "/var/lib/trainstack/data"},
        {"nfs": {"server": "nfs.example", "path": "/data"}},
    )
)
DATA = [each.volume("dev") for each in (FOLDER, EXPORT)]
NOTEBOOK: Manifest = {"name": "notebook", "labels": {"app": "notebook"}}


def asking(namespace: str = "kubeflow", **storage: Any) -> Stack:
    return stack(cluster={"kind": "existing", "namespace": namespace}, image=IMAGE, storage=storage)


def with_data(*data: DataSet) -> Stack:
    job = {"name": "mnist", "data": [each.manifest() for each in data]}
    return stack(cluster={"kind": "existing"}, image=IMAGE, job=job)


def live(manifest: Manifest) -> Manifest:
    """As the API server keeps it."""
    spec, metadata = manifest["spec"], {**manifest["metadata"], "uid": f"uid-{title(manifest)}"}
    if manifest["kind"] == "PersistentVolume":
        bound = {**spec["claimRef"], "uid": "some", "resourceVersion": "7"}
        return {
            **manifest,
            "metadata": metadata,
            "spec": {**spec, "claimRef": bound, "volumeMode": "Filesystem"},
        }
    return {
        **manifest,
        "metadata": metadata,
        "spec": {**spec, "volumeName": "some", "volumeMode": "Filesystem"},
    }


def held(before: Stack, *jobs: Manifest, requests: Mapping[str, str] | None = None) -> StackState:
    """The state of a stack that is up.

    Parameters:
        requests: what it asks for -> how the API server writes that.
    """
    objects = [live(each) for volume in volumes.volumes(before) for each in manifests(volume)]
    for each in objects:
        if each["kind"] == "PersistentVolumeClaim" and requests:
            asked = each["spec"]["resources"]["requests"]
            each["spec"]["resources"] = {"requests": {"storage": requests[asked["storage"]]}}
    urns = {f"urn:{place}": each for place, each in enumerate([*objects, *jobs])}
    return stack_state.from_outputs(
        {urn: {"type": f"kubernetes:core/v1:{each['kind']}", "outputs": each} for urn, each in urns.items()}
    )


class Cluster:
    """Every pod in it mounts all claims, which somebody has made again since the state was written.

    Parameters:
        pods: their metadata.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *pods: Manifest) -> None:
        self.pods = pods
        self.asked: list[str] = []
        play(monkeypatch, self.answer)

    def answer(self, request: Request) -> object:
        *_, namespace, plural = request.path.split("/")
        if plural == "pods":
            self.asked.append(namespace)
            return listed(*(self.pod(namespace, each) for each in self.pods))
        return {"metadata": {"name": request.name, "uid": "another"}}

    @staticmethod
    def pod(namespace: str, metadata: Manifest) -> Manifest:
        sources = [{"persistentVolumeClaim": {"claimName": each}} for each in (MODELS, *DATA)]
        return {"metadata": {**metadata, "namespace": namespace}, "spec": {"volumes": sources}}


def refusal(after: Stack, state: StackState) -> str:
    """Why the change is refused; empty where it is not."""
    try:
        decision.ensure_free(after, look(), state, ())
    except ConfigError as error:
        return str(error)
    return ""


NFS = {"kind": "nfs", "nfsServer": "first.example", "nfsPath": "/first"}
CLASS = {"kind": "class", "storageClass": "fast"}
Change = tuple[dict[str, Any], dict[str, Any], str]
"""Section `storage` before, after, and the claim that the change deletes; empty where it deletes none."""
CHANGES: dict[str, list[Change]] = {
    "kind": [({}, NFS, MODELS), (NFS, {}, MODELS), ({}, CLASS, MODELS), (CLASS, {}, "")],
    "volume": [
        ({"volume": "a", "claim": MODELS}, {"volume": "b", "claim": MODELS}, MODELS),
        # The claim selects by the labels, which stay.
        (
            {"volume": "a", "claim": MODELS, "labels": {"type": "t", "name": "n"}},
            {"volume": "b", "claim": MODELS, "labels": {"type": "t", "name": "n"}},
            MODELS,
        ),
        ({}, {"volume": "b"}, MODELS),
    ],
    "claim": [({}, {"claim": "b"}, MODELS), ({"claim": "a"}, {"claim": MODELS}, "")],
    "labels": [({}, {"labels": {"team": "a"}}, ""), ({}, {"labels": {"type": "other"}}, MODELS)],
    "storageClass": [({}, {"storageClass": "other"}, MODELS)],
    "capacity": [({}, {"capacity": "12Gi"}, "")],
    "request": [({}, {"request": "5Gi"}, MODELS), ({"request": "5Gi"}, {"request": "3Gi"}, MODELS)],
    "accessMode": [({}, {"accessMode": "ReadWriteOnce"}, MODELS)],
    "reclaimPolicy": [({}, {"reclaimPolicy": "Delete"}, "")],
    "hostPath": [({}, {"hostPath": "/var/lib/trainstack/other"}, MODELS)],
    "nfsServer": [(NFS, {**NFS, "nfsServer": "second.example"}, MODELS)],
    "nfsPath": [(NFS, {**NFS, "nfsPath": "/second"}, MODELS)],
    "node": [
        ({}, {"node": "a"}, MODELS),
        ({"node": "a"}, {"node": "b"}, MODELS),
        ({"node": "a"}, {}, MODELS),
    ],
    "mountPath": [({}, {"mountPath": "/other"}, "")],
    "allowedRoots": [({}, {"allowedRoots": ["/var/lib/trainstack", "/srv"]}, "")],
    "keepRuns": [({}, {"keepRuns": {"number": 2}}, "")],
    "shared": [({}, {"shared": True}, "")],
    "prepare": [({}, {"prepare": False}, "")],
    "owner": [({}, {"owner": 1001}, "")],
    "group": [({}, {"group": 1001}, "")],
    "mode": [({}, {"mode": "2770"}, "")],
}
"""Key of section `storage` -> changes of it."""


def test_each_key_of_the_section_is_tried() -> None:
    assert set(CHANGES) == {each.alias for each in StorageConfig.model_fields.values()}


@pytest.mark.parametrize(
    ("before", "after", "claim"),
    [pytest.param(*each, id=f"{key}-{n}") for key, tried in CHANGES.items() for n, each in enumerate(tried)],
)
def test_a_change_that_deletes_a_claim_is_refused_while_others_mount_it(
    before: dict[str, Any], after: dict[str, Any], claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(monkeypatch, NOTEBOOK)
    told = refusal(asking(**after), held(asking(**before)))
    assert f"claim {claim}" in told if claim else told == ""
    if claim:
        assert "trainstack:storage" in told
        assert "fix: delete these pods (kubectl --namespace kubeflow delete pod notebook)" in told


OF_DATA: list[tuple[list[DataSet], list[DataSet], str]] = [
    ([], [FOLDER], ""),
    ([FOLDER], [], DATA[0]),
    ([FOLDER], [EXPORT], DATA[0]),
    ([EXPORT], [FOLDER], DATA[1]),
    ([FOLDER], [FOLDER.model_copy(update={"path": "/elsewhere"})], ""),
    ([DataSet(path="/data", claim="theirs")], [DataSet(path="/other", claim="theirs")], ""),
]


@pytest.mark.parametrize(("before", "after", "claim"), OF_DATA)
def test_a_claim_of_data_stays_while_others_mount_it(
    before: list[DataSet], after: list[DataSet], claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(monkeypatch, NOTEBOOK)
    told = refusal(with_data(*after), held(with_data(*before)))
    assert f"claim {claim}" in told if claim else told == ""
    assert refusal(with_data(*after), held(with_data(*after))) == ""


def test_another_namespace_deletes_the_claims_in_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, NOTEBOOK)
    told = refusal(asking("new"), held(asking("old")))
    assert "trainstack:cluster.namespace = 'new'" in told
    assert "kubectl --namespace old delete pod notebook" in told
    assert cluster.asked == ["old"]


@pytest.mark.parametrize("storage", [each for tried in CHANGES.values() for _, each, _ in tried])
def test_what_is_not_changed_is_not_refused(storage: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, NOTEBOOK)
    assert refusal(asking(**storage), held(asking(**storage))) == ""


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("2048Ki", "2Mi"),
        ("3000M", "3G"),
        ("1024Pi", "1Ei"),
    ],
)
def test_a_request_is_compared_by_its_amount(
    written: str, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(monkeypatch, NOTEBOOK)
    asked = asking(request=written, capacity="1024Pi")
    state = held(asked, requests={written: kept})
    assert refusal(asked, state) == ""
    assert f"claim {MODELS}" in refusal(asking(request="7Gi"), state)


def owned(kind: str, api_version: str, name: str) -> Manifest:
    return {"ownerReferences": [{"kind": kind, "apiVersion": api_version, "name": name, "uid": "some"}]}


def pod(name: str, labels: Mapping[str, str] | None = None, **metadata: Any) -> Manifest:
    return {"name": name, "labels": {**MANAGED_BY, **(labels or {})}, **metadata}


OURS = {
    "of a PyTorchJob": pod("p", {OF_JOB: "ours"}, **owned("PyTorchJob", "kubeflow.org/v1", "ours")),
    "of a TrainJob": pod("p", {OF_JOBSET: "ours", OF_JOB: "x"}, **owned("Job", "batch/v1", "ours-node-0")),
    "that prepares the folder": pod("p", **owned("Job", "batch/v1", f"{MODELS}-prepare")),
    "that reads the volume": pod("trainstack-reader-1"),
    "on its way out": {"name": "p", "deletionTimestamp": "2024-01-01T00:00:00Z"},
}
THEIRS = {
    "bare": {"name": "p"},
    "without labels": {"name": "p", "labels": None},
    "of a notebook": {"name": "p", **owned("StatefulSet", "apps/v1", "notebook")},
    "of another stack's PyTorchJob": pod("p", {OF_JOB: "x"}, **owned("PyTorchJob", "kubeflow.org/v1", "x")),
    "of another stack's TrainJob": pod("p", {OF_JOBSET: "x"}, **owned("Job", "batch/v1", "x-node-0")),
    "of a TrainJob on the stack's runtime": pod(
        "p", {OF_JOBSET: "x", OF_JOB: "ours"}, **owned("Job", "batch/v1", "x-node-0")
    ),
    "that prepares another stack's folder": pod("p", **owned("Job", "batch/v1", "x-prepare")),
}


@pytest.mark.parametrize("metadata", [*OURS.values(), *THEIRS.values()], ids=[*OURS, *THEIRS])
def test_only_pods_that_go_with_the_stacks_own_jobs_or_by_themselves_do_not_count(
    metadata: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(monkeypatch, metadata)
    kinds = [each.kind for each in OF_API.values()]
    assert kinds == [PYTORCHJOB.kind, TRAINJOB.kind]
    named = {**dict.fromkeys(kinds, "ours"), "Job": f"{MODELS}-prepare"}
    jobs = [
        {"kind": kind, "metadata": {"name": name, "namespace": "kubeflow"}} for kind, name in named.items()
    ]
    told = refusal(asking(request="5Gi"), held(asking(), *jobs))
    assert bool(told) is (metadata in THEIRS.values())


def test_a_stack_that_is_not_up_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, NOTEBOOK)
    assert refusal(asking(request="5Gi"), StackState()) == ""
    assert cluster.asked == []
