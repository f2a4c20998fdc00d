"""What a state tells without Pulumi; a cluster was replaced: what went with the old one leaves it, and nothing else."""

from __future__ import annotations

from typing import Any

from infra import agreed
from infra.cluster_kinds import ClusterKind
from toolchain.operating import state

ENCRYPTED = {state.SIGNATURE: "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:…"}


def test_outputs_are_those_of_the_stack_and_secrets_stay_hidden() -> None:
    given = {
        "jobStatus": "Succeeded",
        "jobs": {"mnist": {"loss": None, "token": ENCRYPTED}},
        "all": [ENCRYPTED, 1],
    }
    resources = [
        {"type": "kubernetes:core/v1:Pod", "outputs": {"other": 1}},
        {"type": state.STACK, "outputs": given},
    ]
    assert state.outputs({"resources": resources}) == {
        "jobStatus": "Succeeded",
        "jobs": {"mnist": {"loss": None, "token": "[secret]"}},
        "all": ["[secret]", 1],
    }


def test_a_stack_that_was_never_up_has_none() -> None:
    assert state.outputs({}) == {}
    assert state.outputs({"resources": [{"type": state.STACK}]}) == {}


URN = "urn:pulumi:dev::trainstack::"
CLUSTER = f"{URN}{ClusterKind.KIND.resource}::c"


def provider(number: str, cluster: str, **more: Any) -> dict[str, Any]:
    inputs = {"clusterIdentifier": cluster}
    return {
        "type": agreed.PROVIDER,
        "urn": f"{URN}{agreed.PROVIDER}::c",
        "id": number,
        "inputs": inputs,
        **more,
    }


def resource(name: str, number: str, needs: list[str] | None = None, **more: Any) -> dict[str, Any]:
    kind = "kubernetes:core/v1:ConfigMap"
    owner = f"{URN}{agreed.PROVIDER}::c::{number}"
    urn = f"{URN}{kind}::{name}"
    return {"type": kind, "urn": urn, "id": name, "provider": owner, "dependencies": needs or [], **more}


def run(needs: list[str]) -> dict[str, Any]:
    kind = "pulumi-python:dynamic/trainstack:Run"
    return {
        "type": kind,
        "urn": f"{URN}{kind}::r",
        "id": "r",
        "provider": f"{URN}dynamic::default::1",
        "propertyDependencies": {"uid": needs},
    }


def replaced() -> dict[str, Any]:
    cluster = {
        "type": ClusterKind.KIND.resource,
        "urn": CLUSTER,
        "id": "c",
        "outputs": {"instance": "second"},
    }
    job = resource("job", "1")
    return {
        "resources": [
            cluster,
            provider("2", "second"),
            resource("both", "2"),
            provider("1", "first", delete=True),
            resource("both", "1", delete=True),
            job,
            run([job["urn"]]),
        ]
    }


def test_the_old_clusters_objects_are_found() -> None:
    found = [(each["id"], each.get("delete")) for each in state.left_behind(replaced())]
    assert found == [("1", True), ("both", True), ("job", None)]


def test_they_go_with_all_that_needs_them() -> None:
    deployment = replaced()
    state.forget_left_behind(deployment)
    kept = [(each["id"], each.get("provider", "")[-3:]) for each in deployment["resources"]]
    assert kept == [("c", ""), ("2", ""), ("both", "::2")]


def test_a_cluster_that_was_never_replaced_loses_nothing() -> None:
    deployment = replaced()
    deployment["resources"][0]["outputs"]["instance"] = "first"
    deployment["resources"] = [deployment["resources"][0], *deployment["resources"][3:]]
    before = list(deployment["resources"])
    assert state.left_behind(deployment) == []
    state.forget_left_behind(deployment)
    assert deployment["resources"] == before


def test_a_cluster_by_kubeconfig_has_no_owner_to_prove_anything() -> None:
    assert state.left_behind({"resources": [provider("1", "x"), resource("a", "1")]}) == []
