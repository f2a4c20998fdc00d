"""`make down` says what is kept of a claim whose storage class decides about its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from infra import agreed
from toolchain.operating import objects_left
from toolchain.steps import SetupError

CLAIM = {
    "kind": "PersistentVolumeClaim",
    "apiVersion": "v1",
    "metadata": {"name": "models", "namespace": "team"},
}
OWNER = {"type": agreed.OWNER, "outputs": {"owner": "0123456789abcdef"}}
CLUSTER = {"type": agreed.KIND_CLUSTER, "inputs": {"config": json.dumps({"name": "trainstack-x"})}}


def deployment(*more: dict[str, Any], retained: bool = True) -> dict[str, Any]:
    claim = {"type": objects_left.CLAIM, "outputs": CLAIM, "retainOnDelete": retained}
    return {"resources": [OWNER, claim, *more]}


def cluster(policy: str | None, volume: str | None = "pvc-1") -> objects_left.Lookup:
    def live(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        if manifest["kind"] == "PersistentVolumeClaim":
            return {**CLAIM, "spec": {"volumeName": volume} if volume else {}}
        if policy is None:
            raise SetupError("forbidden")
        return {"spec": {"persistentVolumeReclaimPolicy": policy}}

    return live


@pytest.mark.parametrize(
    ("live", "fate"),
    [
        (cluster("Delete"), "its files go when the claim is deleted (reclaim policy Delete)"),
        (cluster("Retain"), "its volume pvc-1 stays when the claim is deleted (reclaim policy Retain)"),
        (
            cluster(None),
            "its files go when the claim is deleted (the usual reclaim policy; yours could not be read)",
        ),
        (cluster("Delete", None), "no volume is bound to it, so that it has no files yet"),
    ],
)
def test_the_claim_stays_and_its_reclaim_policy_is_said(live: objects_left.Lookup, fate: str) -> None:
    assert objects_left.claim_lines(deployment(), "x", live) == [
        f"left in the cluster: PersistentVolumeClaim/team/models; {fate}",
        "  to delete it: kubectl --namespace team delete persistentvolumeclaim models",
        "  to go on with it: make up STACK=x ADOPT=0123456789abcdef",
    ]


def test_its_namespace_stays_with_it() -> None:
    outputs = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "team"}}
    made = {"type": "kubernetes:core/v1:Namespace", "outputs": outputs, "retainOnDelete": True}
    first = kept_lines(deployment(made))[0]
    assert first.startswith("left in the cluster: PersistentVolumeClaim/team/models, with Namespace/team; ")


def kept_lines(held: dict[str, Any]) -> list[str]:
    return objects_left.claim_lines(held, "x", cluster("Delete"))


def test_with_a_kind_cluster_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    (said,) = objects_left.claim_lines(deployment(CLUSTER), "x", lambda _: None)
    assert "PersistentVolumeClaim/team/models and its files go with cluster trainstack-x" in said
    assert said.endswith("models/x")


def test_of_a_claim_that_goes_with_the_stack_nothing_is_said() -> None:
    assert objects_left.claim_lines(deployment(retained=False), "x", cluster("Delete")) == []
