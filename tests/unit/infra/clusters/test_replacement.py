"""When a kind cluster is replaced, and what that needs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from infra import agreed, paths
from infra.clusters import foreign_objects, replacement
from infra.clusters.kind.config import KindConfig
from infra.clusters.kind.providers import ClusterProvider
from infra.objects.look import UnknownError
from tests.unit.infra.clusters.kind.standin import NODE_IMAGE, Engine, node

CONFIG = KindConfig(name="c", stack="dev")
# A second value for each setting; one without is an error of this test.
CHANGES: dict[str, Any] = {
    "name": "d",
    "stack": "other",
    "models_path": "/elsewhere",
    "workers": 1,
    "api_server_port": 6443,
}


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The foreign objects in the cluster."""
    found: list[str] = []
    monkeypatch.setattr(foreign_objects, "titles", lambda address, stack: found)
    return found


@pytest.fixture
def made(engine: Engine, others: list[str]) -> dict[str, Any]:
    return ClusterProvider().create(props()).outs or {}


def props(image: str = NODE_IMAGE, **changes: Any) -> dict[str, Any]:
    return {"config": dataclasses.replace(CONFIG, **changes).encode(), "image": image}


@pytest.mark.parametrize("key", [field.name for field in dataclasses.fields(KindConfig)])
def test_each_changed_setting_replaces_and_says_so(
    made: dict[str, Any], capsys: pytest.CaptureFixture[str], key: str
) -> None:
    difference = ClusterProvider().diff("c", made, props(**{key: CHANGES[key]}))
    assert difference.replaces == ["config"]
    said = capsys.readouterr().out
    assert f"{key}: {getattr(CONFIG, key)} -> {CHANGES[key]}" in said
    assert "models and data stay: they are folders of this machine" in said


@pytest.mark.parametrize("key", [field.name for field in dataclasses.fields(KindConfig)])
def test_what_is_not_ours_is_not_lost_unasked(
    engine: Engine,
    others: list[str],
    made: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    key: str,
) -> None:
    others += ["configmaps/default/notes", *(f"secrets/default/{number}" for number in range(20))]
    engine.calls.clear()
    news = props(**{key: CHANGES[key]})
    with pytest.raises(replacement.ReplacementRefusedError) as refused:
        ClusterProvider().diff("c", made, news)
    assert engine.calls == [], "nothing was touched"
    for part in (f"{key}: ", "configmaps/default/notes", "and 11 more", "REPLACE_CLUSTER=yes", "save them"):
        assert part in str(refused.value)

    monkeypatch.setenv(agreed.REPLACE_CLUSTER, "yes")
    assert ClusterProvider().diff("c", made, news).replaces == ["config"]
    assert "configmaps/default/notes" in capsys.readouterr().out


def test_a_cluster_that_does_not_tell_what_it_holds_is_not_replaced_unasked(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(address: Any, stack: str) -> list[str]:
        raise UnknownError("connection refused")

    monkeypatch.setattr(foreign_objects, "titles", silent)
    monkeypatch.setenv(agreed.REPLACE_CLUSTER, "no")
    with pytest.raises(replacement.ReplacementRefusedError, match=r"(?s)connection refused.*REPLACE_CLUSTER"):
        ClusterProvider().diff("c", made, props(workers=1))
    monkeypatch.setenv(agreed.REPLACE_CLUSTER, "yes")
    assert ClusterProvider().diff("c", made, props(workers=1)).replaces == ["config"]


def test_a_stopped_cluster_is_asked_what_it_holds(engine: Engine, made: dict[str, Any]) -> None:
    engine.nodes = [node("c-control-plane", paths.marker("c"), "exited")]
    assert ClusterProvider().diff("c", made, props(workers=1)).replaces == ["config"]
    assert engine.called("docker") == ["docker start c-control-plane"]


def test_a_newer_node_image_waits_until_it_is_asked_for(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = props(image="trainstack/node:v1.35.0-ba9876543210")
    assert ClusterProvider().diff("c", made, newer).changes is False
    said = capsys.readouterr().out
    assert "v1.35.0" in said
    assert "make up STACK=dev REPLACE_CLUSTER=yes" in said
    monkeypatch.setenv(agreed.REPLACE_CLUSTER, "yes")
    assert ClusterProvider().diff("c", made, newer).replaces == ["config"]


def test_the_question_for_a_replacement_replaces_nothing_by_itself(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(agreed.REPLACE_CLUSTER, "yes")
    assert ClusterProvider().diff("c", made, props()).changes is False


def test_a_lost_worker_is_a_reason(
    engine: Engine, made: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    olds = made | {"nodes": [*made["nodes"], "c-worker"]}
    assert ClusterProvider().diff("c", olds, props()).replaces == ["config"]
    assert "node c-worker is gone" in capsys.readouterr().out


STACK = "dev"
OURS = {"trainstack/stack": "dev"}
PROVISIONED = {"pv.kubernetes.io/provisioned-by": "rancher.io/local-path"}
"""On the volume of a claim that may be ours: its files would go with the cluster."""


@pytest.mark.parametrize(
    ("resource", "metadata", "foreign"),
    [
        ("configmaps", {"name": "notes", "namespace": "default"}, True),
        ("namespaces", {"name": "team"}, True),
        ("persistentvolumes", {"name": "disk"}, True),
        ("persistentvolumes", {"name": "pvc-1", "annotations": PROVISIONED}, True),
        ("clusterroles", {"name": "team"}, True),
        ("configmaps", {"name": "notes", "namespace": "team", "labels": {"trainstack/stack": "other"}}, True),
        ("configmaps", {"name": "notes", "namespace": "kubeflow", "labels": OURS}, False),
        ("pytorchjobs", {"name": "j", "labels": {"app.kubernetes.io/managed-by": "trainstack"}}, False),
        ("persistentvolumes", {"name": "m", "managedFields": [{"manager": "pulumi-kubernetes-1"}]}, True),
        ("pods", {"name": "p", "namespace": "default", "ownerReferences": [{"kind": "ReplicaSet"}]}, False),
        ("deployments", {"name": "coredns", "namespace": "kube-system"}, False),
        ("configmaps", {"name": "kube-root-ca.crt", "namespace": "team"}, False),
        ("serviceaccounts", {"name": "default", "namespace": "team"}, False),
        ("namespaces", {"name": "kube-system"}, False),
        ("clusterroles", {"name": "system:node"}, False),
        ("clusterrolebindings", {"name": "calico-node"}, False),
        ("customresourcedefinitions", {"name": "ippools.crd.projectcalico.org"}, False),
        ("customresourcedefinitions", {"name": "ippools.example.com"}, True),
        ("storageclasses", {"name": "microk8s-hostpath"}, False),
        ("leases", {"name": "l", "namespace": "kubeflow"}, False),
        ("secrets", {"name": "system:notes", "namespace": "default"}, True),
    ],
)
def test_whose_an_object_is(resource: str, metadata: dict[str, Any], foreign: bool) -> None:
    assert foreign_objects.is_foreign(resource, {"metadata": metadata}, STACK) is foreign
