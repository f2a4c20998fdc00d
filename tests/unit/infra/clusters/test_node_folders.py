"""On a cluster of several nodes, a folder of one node is refused unless the stack file says which node has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pytest

from infra.clusters import selection
from infra.clusters.discovery import ClusterContents, contents_of
from infra.clusters.node_folders import ensure_one_folder
from infra.config import ConfigError, Stack
from infra.objects.look import UnknownError
from tests.unit.infra.objects.played_api import look, play
from tests.unit.infra.samples import JOB, stack
from tests.unit.infra.shared_folder.played_nodes import node

IMAGE = {"repository": "registry.example/trainer"}
CONTROL = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
Nodes = dict[str, list[dict[str, Any]]]


def of(nodes: Nodes) -> tuple[Any, ...]:
    return tuple(node(name, *taints) for name, taints in nodes.items())


def elsewhere(job: dict[str, Any] | None = None, **storage: Any) -> Stack:
    of_job = {**JOB, **(job or {})}
    return stack("gpu", cluster={"kind": "existing"}, image=IMAGE, storage=storage, job=of_job)


def tolerating(*tolerations: dict[str, Any]) -> dict[str, Any]:
    return {"pod": {"spec": {"tolerations": list(tolerations)}}}


@pytest.mark.parametrize(
    "nodes",
    [
        {},
        {"a": []},
        {"a": [], "control": [CONTROL]},
        {"a": [], "b": [GPU]},
        {"a": [{"key": "x", "effect": "PreferNoSchedule"}]},
    ],
)
def test_one_node_that_takes_the_pods_has_the_folder(nodes: Nodes) -> None:
    ensure_one_folder(elsewhere(), of(nodes))


@pytest.mark.parametrize(
    ("nodes", "tolerations"),
    [
        ({"a": [], "b": []}, []),
        ({"a": [], "b": [{"key": "x", "effect": "PreferNoSchedule"}]}, []),
        ({"a": [], "b": [GPU]}, [{"key": "nvidia.com/gpu", "operator": "Exists"}]),
        ({"a": [], "b": [{**GPU, "value": ""}]}, [{"key": "nvidia.com/gpu"}]),
        ({"a": [], "b": [GPU]}, [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}]),
        ({"a": [], "b": [CONTROL, GPU]}, [{"operator": "Exists"}]),
    ],
)
def test_several_nodes_without_a_word_are_refused(nodes: Nodes, tolerations: list[dict[str, Any]]) -> None:
    tolerant = tolerating(*tolerations)
    told = r"(?s)storage\.node = \(absent\).*a, b.*`node: a`, or `shared: true`"
    with pytest.raises(ConfigError, match=told):
        ensure_one_folder(elsewhere(tolerant), of(nodes))
    ensure_one_folder(elsewhere(tolerant, node="b"), of(nodes))
    ensure_one_folder(elsewhere(tolerant, shared=True), of(nodes))


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "other", "operator": "Exists"},
        {"key": "nvidia.com/gpu"},
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"},
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "absent"},
    ],
)
def test_a_taint_that_is_not_tolerated_keeps_the_pods_out(toleration: dict[str, Any]) -> None:
    ensure_one_folder(elsewhere(tolerating(toleration)), of({"a": [], "b": [GPU]}))


def test_nodes_without_the_labels_of_the_jobs_take_no_pod() -> None:
    nodes = [node("a"), node("b", labels={"disk": "fast"}), node("c", labels={"disk": "fast", "zone": "1"})]
    ensure_one_folder(elsewhere({"pod": {"spec": {"nodeSelector": {"zone": "1"}}}}), nodes)
    with pytest.raises(ConfigError, match=r"several nodes: b, c\n"):
        ensure_one_folder(elsewhere({"pod": {"spec": {"nodeSelector": {"disk": "fast"}}}}), nodes)


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"(?s)storage\.node = 'c'.*a, b"):
        ensure_one_folder(elsewhere(node="c"), of({"a": [], "b": []}))


def test_many_nodes_are_not_all_listed() -> None:
    with pytest.raises(ConfigError, match="n04 and 95 more"):
        ensure_one_folder(elsewhere(), of({f"n{number:02}": [] for number in range(100)}))


def test_cordoned_nodes_take_none() -> None:
    nodes = [
        {"metadata": {"name": "a"}, "spec": {"taints": [GPU]}, "status": {}},
        {"metadata": {"name": "b"}, "spec": {"unschedulable": True}, "status": {}},
    ]
    assert contents_of(lambda _: False, [], [], [], nodes).nodes == (nodes[0],)


@pytest.mark.parametrize("kind", ["existing", "microk8s"])
def test_it_is_refused_before_anything_is_registered(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        selection, "read_contents", lambda *asked: ClusterContents(nodes=of({"a": [], "b": []}))
    )
    known = stack(cluster={"kind": kind}, image=IMAGE)
    with pytest.raises(ConfigError, match=r"storage\.node"):
        selection.examine(known, lambda _: False, look())


def test_the_nodes_of_our_own_kind_cluster_mount_one_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        selection, "read_contents", lambda *asked: ClusterContents(nodes=of({"a": [], "b": []}))
    )
    selection.examine(stack(cluster={"workers": 2}), lambda _: False, look())


@pytest.mark.parametrize("preview", [True, False])
def test_a_users_cluster_that_does_not_tell_what_it_holds_is_not_taken_for_empty(
    preview: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("{}")
    play(monkeypatch, lambda _: 503)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: preview)
    known = stack(cluster={"kind": "existing", "kubeconfig": str(file)}, image=IMAGE)
    with pytest.raises(UnknownError, match=r"(?s)503.*; nothing was touched\n  fix: "):
        selection.examine(known, lambda _: False, look(kubeconfig=str(file)))
