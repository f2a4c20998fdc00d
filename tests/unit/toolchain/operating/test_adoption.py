"""Objects that a killed run may or may not have created."""

from __future__ import annotations

from typing import Any

import pytest

from toolchain.operating import adoption

PARENT = "urn:pulumi:dev::trainstack::trainstack:operator:Operator::op"


def pending(
    kind: str, metadata: dict[str, Any], operation: str = "creating", parent: str = PARENT
) -> dict[str, Any]:
    resource = {
        "urn": f"urn:pulumi:dev::trainstack::{kind}::one",
        "custom": True,
        "type": kind,
        "parent": parent,
        "inputs": {"metadata": metadata},
    }
    return {"type": operation, "resource": resource}


def deployment(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"resources": [{"urn": PARENT}], "pending_operations": list(operations)}


@pytest.mark.parametrize(
    ("kind", "metadata", "identity"),
    [
        ("kubernetes:core/v1:Namespace", {"name": "kubeflow"}, "kubeflow"),
        ("kubernetes:kubeflow.org/v1:PyTorchJob", {"name": "job", "namespace": "kubeflow"}, "kubeflow/job"),
    ],
)
def test_a_kubernetes_object_becomes_a_resource_that_a_refresh_looks_up(
    kind: str, metadata: dict[str, Any], identity: str
) -> None:
    state = deployment(pending(kind, metadata))
    assert len(adoption.adopt(state)) == 1
    assert state["pending_operations"] == []
    assert state["resources"][-1]["id"] == identity
    assert state["resources"][-1]["inputs"] == {"metadata": metadata}


@pytest.mark.parametrize(
    "operation",
    [
        pending("pulumi-python:dynamic/trainstack:KindCluster", {"name": "cluster"}),
        pending("kubernetes:core/v1:Namespace", {"name": "kubeflow"}, operation="deleting"),
        pending("kubernetes:core/v1:Namespace", {}),
        pending("kubernetes:core/v1:Namespace", {"name": "kubeflow"}, parent="urn:of:nobody"),
    ],
)
def test_anything_else_is_forgotten(operation: dict[str, Any]) -> None:
    state = deployment(operation)
    assert adoption.adopt(state) == []
    assert state == {"resources": [{"urn": PARENT}], "pending_operations": []}


def test_a_resource_that_the_state_has_already_is_not_doubled() -> None:
    operation = pending("kubernetes:core/v1:Namespace", {"name": "kubeflow"})
    state = deployment(operation)
    state["resources"].append(operation["resource"])
    assert adoption.adopt(state) == []
    assert len(state["resources"]) == 2
