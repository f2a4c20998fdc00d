"""What `make down` leaves: objects for all where others use them, claims whose class decides; it says for whom."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from infra import agreed
from infra.cluster_kinds import ClusterKind
from toolchain.operating import objects_left
from toolchain.steps import SetupError

CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
MODELS = "PersistentVolumeClaim/team/models"
NOBODY: dict[str, Any] = {
    "jobs": [],
    "queues": [],
    "namespaces": {"kubeflow": [], "team": []},
    "claims": {MODELS: []},
}
THEIRS = "PyTorchJob/theirs/mnist"


def resource(
    kind: str, name: str, namespace: str | None = None, parent: str = "operator:Operator"
) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    outputs = {"kind": kind.rpartition(":")[2], "metadata": metadata}
    urn = f"urn:pulumi:dev::trainstack::trainstack:{parent}${kind}::{name}"
    return {"urn": urn, "type": kind, "outputs": outputs}


@pytest.fixture
def deployment() -> dict[str, Any]:
    return {
        "resources": [
            {"type": "pulumi:providers:kubernetes"},
            resource(CRD, "pytorchjobs.kubeflow.org"),
            resource("kubernetes:apps/v1:Deployment", "training-operator", "kubeflow"),
            resource("kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue", "team-a", parent="operator:Queue"),
            resource("kubernetes:apps/v1:Deployment", "kueue-system", "kueue-system", "operator:Queue"),
            resource("kubernetes:core/v1:Namespace", "kubeflow", parent="cluster:Existing"),
            resource("kubernetes:core/v1:Namespace", "team", parent="cluster:Existing"),
            *claimed("models", "team"),
        ]
    }


def claimed(name: str, namespace: str) -> list[dict[str, Any]]:
    """A volume and its claim."""
    volume = resource("kubernetes:core/v1:PersistentVolume", f"{name}-volume", parent="storage:Storage")
    volume["outputs"]["spec"] = {"claimRef": {"name": name, "namespace": namespace}}
    return [volume, resource(objects_left.CLAIM, name, namespace, "storage:Storage")]


def retained(deployment: dict[str, Any]) -> set[str]:
    return {
        each["outputs"]["metadata"]["name"] for each in deployment["resources"] if each.get("retainOnDelete")
    }


def test_nobody_else_leaves_nothing_behind(deployment: dict[str, Any]) -> None:
    objects_left.retain(deployment, NOBODY)
    assert retained(deployment) == set()
    assert objects_left.left(deployment, NOBODY) == []


@pytest.mark.parametrize(
    ("users", "stays"),
    [
        ({**NOBODY, "jobs": [THEIRS]}, {"pytorchjobs.kubeflow.org", "training-operator", "kubeflow"}),
        ({**NOBODY, "queues": ["Workload/theirs/x"]}, {"team-a", "kueue-system"}),
        ({**NOBODY, "namespaces": {"kubeflow": [], "team": ["Pod/team/x"]}}, {"team"}),
        ({**NOBODY, "namespaces": {"kubeflow": ["ConfigMap/kubeflow/x"], "team": []}}, {"kubeflow"}),
        ({**NOBODY, "claims": {MODELS: ["Pod/team/x"]}}, {"models", "models-volume", "team"}),
        (
            {
                "jobs": ["unknown: 403"],
                "queues": ["unknown: 403"],
                "namespaces": {"kubeflow": ["unknown: 403"], "team": ["unknown: 403"]},
                "claims": {MODELS: ["unknown: 403"]},
            },
            {
                *("pytorchjobs.kubeflow.org", "training-operator", "kubeflow"),
                *("team-a", "kueue-system", "team", "models", "models-volume"),
            },
        ),
    ],
)
def test_what_others_use_stays_and_is_said(
    deployment: dict[str, Any], users: dict[str, Any], stays: set[str]
) -> None:
    kept, used_by = objects_left.left(deployment, users)
    objects_left.retain(deployment, users)
    assert retained(deployment) == stays
    assert all(name in kept for name in stays)
    places = (*users["namespaces"].values(), *users["claims"].values())
    told = [*users["jobs"], *users["queues"], *(each for found in places for each in found)]
    assert all(each in used_by for each in told)


def test_other_claims_and_their_volumes_go() -> None:
    deployment = {"resources": [*claimed("models", "team"), *claimed("data", "team")]}
    assert MODELS in objects_left.titles(deployment)
    objects_left.retain(deployment, {**NOBODY, "claims": {MODELS: ["Pod/team/x"]}})
    assert retained(deployment) == {"models", "models-volume"}


def test_an_operator_in_another_namespace_stays_in_it() -> None:
    made = [
        resource("kubernetes:apps/v1:Deployment", "training-operator", "operators"),
        resource("kubernetes:core/v1:Namespace", "operators", parent="cluster:Existing"),
        resource("kubernetes:core/v1:Namespace", "kubeflow", parent="cluster:Existing"),
    ]
    deployment = {"resources": made}
    used = {**NOBODY, "jobs": [THEIRS], "namespaces": {"operators": [], "kubeflow": []}}
    objects_left.retain(deployment, used)
    assert retained(deployment) == {"training-operator", "operators"}


LIVE_CLAIM = {
    "kind": "PersistentVolumeClaim",
    "apiVersion": "v1",
    "metadata": {"name": "models", "namespace": "team"},
}
OWNED = {"type": agreed.OWNER, "outputs": {"owner": "0123456789abcdef"}}
CLUSTER = {"type": ClusterKind.KIND.resource, "inputs": {"config": json.dumps({"name": "trainstack-x"})}}


def retained_claim(*more: dict[str, Any], retained: bool = True) -> dict[str, Any]:
    claim = {"type": objects_left.CLAIM, "outputs": LIVE_CLAIM, "retainOnDelete": retained}
    return {"resources": [OWNED, claim, *more]}


def cluster(policy: str | None, volume: str | None = "pvc-1") -> objects_left.Lookup:
    def live(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        if manifest["kind"] == "PersistentVolumeClaim":
            return {**LIVE_CLAIM, "spec": {"volumeName": volume} if volume else {}}
        if policy is None:
            raise SetupError("forbidden")
        return {"spec": {"persistentVolumeReclaimPolicy": policy}}

    return live


@pytest.mark.parametrize(
    ("live", "fate"),
    [
        (cluster("Delete"), "its files are deleted with the claim (reclaim policy Delete)"),
        (cluster("Retain"), "its volume pvc-1 stays when the claim is deleted (reclaim policy Retain)"),
        (
            cluster(None),
            "its files are deleted with the claim if the volume's reclaim policy, which could not be read, is Delete",
        ),
        (cluster("Delete", None), "no volume is bound to it yet, so it has no files"),
    ],
)
def test_the_claim_stays_and_its_reclaim_policy_is_said(live: objects_left.Lookup, fate: str) -> None:
    assert objects_left.claim_lines(retained_claim(), "x", live) == [
        f"left in the cluster: PersistentVolumeClaim/team/models; {fate}",
        "  to delete it: kubectl --namespace team delete persistentvolumeclaim models",
        "  to use it again: make up STACK=x ADOPT=0123456789abcdef",
    ]


def test_its_namespace_stays_with_it() -> None:
    outputs = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "team"}}
    made = {"type": "kubernetes:core/v1:Namespace", "outputs": outputs, "retainOnDelete": True}
    first = kept_lines(retained_claim(made))[0]
    assert first.startswith("left in the cluster: PersistentVolumeClaim/team/models, with Namespace/team; ")


def kept_lines(held: dict[str, Any]) -> list[str]:
    return objects_left.claim_lines(held, "x", cluster("Delete"))


def test_with_a_kind_cluster_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    (said,) = objects_left.claim_lines(retained_claim(CLUSTER), "x", lambda _: None)
    assert "PersistentVolumeClaim/team/models and its files are deleted with cluster trainstack-x" in said
    assert said.endswith("models/x")


def test_of_a_claim_that_goes_with_the_stack_nothing_is_said() -> None:
    assert objects_left.claim_lines(retained_claim(retained=False), "x", cluster("Delete")) == []
