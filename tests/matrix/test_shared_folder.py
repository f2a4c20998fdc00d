"""The look at a shared folder, asked of a real API server, which admits its pods; only how they end is played."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config

from infra.clusters.node_folders import Placement
from infra.objects.api import ApiAddress
from infra.objects.pod_security import namespace_labels
from infra.run.reader_pod import MountedClaim
from infra.shared_folder import probe
from infra.shared_folder.probe import NotSharedError, Probe
from standins.tests.apiserver import ApiServer
from standins.tests.kubelet import NODE

NAMESPACE = "looked-at"
OUTCOME = "test/outcome"


@pytest.fixture(scope="module")
def core(api_server: ApiServer) -> Iterator[Any]:
    """Two nodes beside the kubelet's, one of them drained, and a namespace that lets nothing but `restricted` in."""
    connection: Any = config.new_client_from_config(str(api_server.kubeconfig))  # type: ignore[no-untyped-call]
    made: Any = client.CoreV1Api(connection)
    made.create_namespace({"metadata": {"name": NAMESPACE, "labels": namespace_labels("restricted")}})
    for name in ("second", "drained"):
        made.create_node({"metadata": {"name": name}})
        # The server taints a new node until its kubelet reports.
        made.patch_node(name, {"spec": {"taints": None, "unschedulable": name == "drained"}})
    yield made
    for name in ("second", "drained"):
        made.delete_node(name)
    made.delete_namespace(NAMESPACE)


def look(api_server: ApiServer) -> list[str]:
    address = ApiAddress(str(api_server.kubeconfig))
    image = "registry.example/trainer@sha256:" + "0" * 64
    volume = MountedClaim(address, NAMESPACE, image, "models", "/models")
    return Probe(volume, [Placement()], lambda _: None).run()


def play(monkeypatch: pytest.MonkeyPatch, reads: str) -> None:
    """What becomes of the pods; which node they are on is the kubelet's to say."""
    for name, outcome in (("writer", "run"), ("reader", reads)):
        make = getattr(probe, name)

        def played(*asked: Any, make: Any = make, outcome: str = outcome) -> Any:
            pod = make(*asked)
            pod["metadata"]["annotations"] = {OUTCOME: outcome}
            return pod

        monkeypatch.setattr(probe, name, played)


def left(core: Any) -> list[str]:
    """Pods that nobody has asked to go."""
    items = core.list_namespaced_pod(NAMESPACE).items
    return [pod.metadata.name for pod in items if not pod.metadata.deletion_timestamp]


def test_each_node_that_takes_pods_is_looked_at(
    api_server: ApiServer, core: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, "succeed")
    assert look(api_server) == [NODE, "second"]
    assert left(core) == []


def test_a_node_with_another_folder_is_named(
    api_server: ApiServer, core: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, "fail")
    with pytest.raises(NotSharedError, match=f"^node second has another folder than node {NODE}$"):
        look(api_server)
    assert left(core) == []
