"""What a stack has installed for all goes with it only where nobody else uses it, and `make down` says who does."""

from __future__ import annotations

from typing import Any

import pytest

from toolchain.operating import objects_left

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
