"""Objects that a killed run may or may not have created."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from infra.objects import labels
from toolchain.operating import adoption
from toolchain.operating.state import HALF_REPLACED, has_pending
from toolchain.operating.state import SECRET as MASKED

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


OWNER = {labels.OWNER: "0123456789abcdef"}
OBJECTS = [
    ("kubernetes:core/v1:Namespace", {"name": "kubeflow", "labels": OWNER}, "kubeflow"),
    (
        "kubernetes:kubeflow.org/v1:PyTorchJob",
        {"name": "job", "namespace": "kubeflow", "labels": OWNER},
        "kubeflow/job",
    ),
]


def there(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return manifest


def nothing(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return None


def another_owners(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return {"metadata": {**manifest["metadata"], "labels": {labels.OWNER: "f" * 16}}}


@pytest.mark.parametrize(("kind", "metadata", "identity"), OBJECTS)
def test_an_object_that_the_killed_run_created_becomes_a_resource(
    kind: str, metadata: dict[str, Any], identity: str
) -> None:
    state = deployment(pending(kind, metadata))
    assert len(adoption.adopt_pending(state, there)) == 1
    assert state["pending_operations"] == []
    assert state["resources"][-1]["id"] == identity
    assert state["resources"][-1]["inputs"] == {"metadata": metadata}


APPLY, UPDATE = "Apply", "Update"


@pytest.mark.parametrize(
    ("managers", "taken"),
    [
        ([("pulumi-kubernetes-0a", APPLY, 1)], "pulumi-kubernetes-0a"),
        ([("pulumi-kubernetes-0a", APPLY, 1), ("pulumi-kubernetes-0b", APPLY, 2)], "pulumi-kubernetes-0b"),
        ([("kubectl", APPLY, 3), ("pulumi-kubernetes-0a", APPLY, 1)], "pulumi-kubernetes-0a"),
        ([("kube-controller-manager", UPDATE, 2), ("pulumi-kubernetes", UPDATE, 3)], None),
        ([], None),
    ],
)
def test_the_next_update_is_applied_by_the_manager_that_applied_the_live_object(
    managers: list[tuple[str, str, int]], taken: str | None
) -> None:
    mark: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:{labels.OWNER}": {}}}}
    fields = [
        {"manager": name, "operation": how, "time": f"2026-11-22T00:00:0{second}Z", "fieldsV1": mark}
        for name, how, second in managers
    ]
    kind, metadata, _ = OBJECTS[0]
    state = deployment(pending(kind, metadata))
    adoption.adopt_pending(
        state, lambda wanted: {"metadata": {**wanted["metadata"], "managedFields": fields}}
    )
    assert state["resources"][-1]["outputs"].get("__fieldManager") == taken


@pytest.mark.parametrize("live", [nothing, another_owners])
@pytest.mark.parametrize(("kind", "metadata", "identity"), OBJECTS)
def test_what_is_not_there_or_anothers_is_not_taken(
    live: Callable[[Mapping[str, Any]], Mapping[str, Any] | None],
    kind: str,
    metadata: dict[str, Any],
    identity: str,
) -> None:
    state = deployment(pending(kind, metadata))
    assert adoption.adopt_pending(state, live) == []
    assert state == {"resources": [{"urn": PARENT}], "pending_operations": []}


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
    assert adoption.adopt_pending(state, there) == []
    assert state == {"resources": [{"urn": PARENT}], "pending_operations": []}


def test_a_resource_that_the_state_has_already_is_not_doubled() -> None:
    operation = pending("kubernetes:core/v1:Namespace", {"name": "kubeflow"})
    state = deployment(operation)
    state["resources"].append(operation["resource"])
    assert adoption.adopt_pending(state, there) == []
    assert len(state["resources"]) == 2


def half_replaced(kind: str, metadata: dict[str, Any]) -> dict[str, Any]:
    """The resource of an object that a replacement has deleted."""
    resource = pending(kind, metadata)["resource"]
    old = {"inputs": {"metadata": metadata, "spec": "old"}, "outputs": {"spec": "old"}, "id": "old"}
    return {**resource, **old, HALF_REPLACED: True}


@pytest.mark.parametrize(("kind", "metadata", "identity"), OBJECTS)
@pytest.mark.parametrize("recorded", [True, False], ids=["its creation pending", "recorded nowhere"])
def test_the_successor_of_a_deleted_object_takes_its_place(
    kind: str, metadata: dict[str, Any], identity: str, recorded: bool
) -> None:
    """What depends on it stays behind it."""
    successor = pending(kind, metadata)
    state = deployment(*([successor] if recorded else []))
    old, behind = (
        half_replaced(kind, metadata),
        {"urn": "urn:behind", "dependencies": [successor["resource"]["urn"]]},
    )
    state["resources"] += [old, behind]
    assert has_pending(state)
    assert adoption.adopt_pending(state, there) == [old["urn"]]
    first, taken, last = state["resources"]
    assert (first["urn"], last) == (PARENT, behind)
    assert (taken["id"], HALF_REPLACED in taken) == (identity, False)
    assert taken["inputs"] == (successor["resource"] if recorded else old)["inputs"]
    assert not has_pending(state)


@pytest.mark.parametrize("live", [nothing, another_owners])
def test_what_is_deleted_and_has_no_successor_is_left_to_pulumi(
    live: Callable[[Mapping[str, Any]], Mapping[str, Any] | None],
) -> None:
    kind, metadata, _ = OBJECTS[1]
    state = deployment(pending(kind, metadata))
    state["resources"].append(half_replaced(kind, metadata))
    assert adoption.adopt_pending(state, live) == []
    assert state["resources"][1:] == [half_replaced(kind, metadata)]


def test_a_successor_depends_on_nothing_that_stands_behind_it() -> None:
    kind, metadata, _ = OBJECTS[1]
    successor = pending(kind, metadata)
    successor["resource"] |= {"dependencies": [PARENT, "urn:behind"]}
    successor["resource"]["propertyDependencies"] = {"spec": ["urn:behind", PARENT]}
    state = deployment(successor)
    state["resources"] += [half_replaced(kind, metadata), {"urn": "urn:behind"}]
    adoption.adopt_pending(state, there)
    taken = state["resources"][1]
    assert (taken["dependencies"], taken["propertyDependencies"]) == ([PARENT], {"spec": [PARENT]})


STACK = "urn:pulumi:dev::trainstack"


def step(operation: str, kind: str, name: str, parent: str = PARENT, **state: Any) -> dict[str, Any]:
    new = {"urn": f"{STACK}::{kind}::{name}", "type": kind, "parent": parent, **state}
    return {"op": operation, "urn": new["urn"], "newState": new}


def manifest(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "kubeflow"}, **more}


def test_lost_objects_are_taken_up_with_the_components_that_hold_them() -> None:
    held: dict[str, Any] = {"resources": [{"urn": PARENT}]}
    component = step("create", "trainstack:job:Job", "job")
    inputs = manifest("PyTorchJob", "job", spec={"image": "one"})
    kind = "kubernetes:kubeflow.org/v1:PyTorchJob"
    wanted = step(
        "create",
        kind,
        "PyTorchJob/job",
        component["urn"],
        custom=True,
        inputs=inputs,
        dependencies=["urn:that:is:not:there", PARENT],
    )
    new = step(
        "create",
        "kubernetes:core/v1:ConfigMap",
        "ConfigMap/kubeflow/new",
        custom=True,
        inputs=manifest("ConfigMap", "new"),
    )
    seen = {**inputs, "metadata": {**inputs["metadata"], "uid": "one"}}
    taken = adoption.adopt_lost(held, [component, wanted, new, step("same", kind, "other")], [seen])
    assert taken == [wanted["urn"]]
    _, parent, job = held["resources"]
    assert parent["urn"] == component["urn"]
    assert (job["id"], job["inputs"]) == ("kubeflow/job", inputs)
    assert job["outputs"]["metadata"]["uid"] == "one"
    assert job["dependencies"] == [PARENT]


@pytest.mark.parametrize("name", ["PyTorchJob/kubeflow/job", "PyTorchJob/job"])
def test_an_object_of_which_a_preview_knows_only_the_resources_name_is_taken_up(name: str) -> None:
    held: dict[str, Any] = {"resources": [{"urn": PARENT}]}
    live = manifest("PyTorchJob", "job", spec={"image": "one"})
    inputs = {
        "apiVersion": "v1",
        "kind": "PyTorchJob",
        "metadata": adoption.UNKNOWN,
        "spec": adoption.UNKNOWN,
    }
    wanted = step("create", "kubernetes:kubeflow.org/v1:PyTorchJob", name, custom=True, inputs=inputs)
    assert adoption.adopt_lost(held, [wanted], [live]) == [wanted["urn"]]
    assert held["resources"][-1]["id"] == "kubeflow/job"
    assert held["resources"][-1]["inputs"] == live


@pytest.mark.parametrize("metadata", [{"name": "job"}, {"name": "job", "namespace": adoption.UNKNOWN}, {}])
def test_the_id_is_the_live_objects(metadata: dict[str, Any]) -> None:
    held: dict[str, Any] = {"resources": [{"urn": PARENT}]}
    inputs = {"apiVersion": "v1", "kind": "PyTorchJob", "metadata": metadata}
    kind = "kubernetes:kubeflow.org/v1:PyTorchJob"
    wanted = step("create", kind, "PyTorchJob/job", custom=True, inputs=inputs)
    assert adoption.adopt_lost(held, [wanted], [manifest("PyTorchJob", "job")])
    assert held["resources"][-1]["id"] == "kubeflow/job"


def test_what_a_preview_cannot_know_is_taken_from_the_live_object() -> None:
    live = {
        **manifest("Deployment", "operator", spec={"replicas": 1, "image": "live"}, status={}),
        "metadata": {"name": "operator", "namespace": "kubeflow", "uid": "one", "labels": {"a": "1"}},
    }
    wanted = {**manifest("Deployment", "operator"), "spec": {"replicas": 2, "image": adoption.UNKNOWN}}
    assert adoption.fill_unknown(wanted, live)["spec"] == {"replicas": 2, "image": "live"}
    unknown = {
        "kind": "Deployment",
        "metadata": adoption.UNKNOWN,
        "spec": adoption.UNKNOWN,
        "data": adoption.UNKNOWN,
    }
    filled = adoption.fill_unknown(unknown, live)
    assert filled["metadata"] == {"name": "operator", "namespace": "kubeflow", "labels": {"a": "1"}}
    assert filled["spec"] == live["spec"]
    assert "data" not in filled


def test_what_a_preview_masks_stays_a_secret() -> None:
    live = manifest("Secret", "env", data={"TOKEN": "YQ=="}, type="Opaque")
    wanted = {
        **manifest("Secret", "env", type="Opaque"),
        "data": MASKED,
        "stringData": MASKED,
    }
    filled = adoption.fill_unknown(wanted, live)
    assert filled["data"] == {**adoption.SECRET, "plaintext": '{"TOKEN": "YQ=="}'}, "the import encrypts it"
    assert "stringData" not in filled
    assert filled["type"] == "Opaque"


def test_an_id_that_is_not_made_yet_is_left_out_of_the_mark() -> None:
    wanted = {"metadata": {"name": "a", "labels": {"b": "1", labels.OWNER: adoption.UNKNOWN}}}
    assert adoption.fill_unknown(wanted, {"metadata": {"name": "a"}}) == {
        "metadata": {"name": "a", "labels": {"b": "1"}}
    }
