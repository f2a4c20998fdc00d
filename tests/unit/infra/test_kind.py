"""The kind cluster: its configuration, whose it is, and its life."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pulumi
import pytest

from infra import docker
from infra.clusters.kind import cluster, component, ownership, registry
from infra.clusters.kind.config import OWNER, KindConfig, hosts_toml, render
from infra.clusters.kind.providers import ClusterProvider
from infra.dynamic import GONE


def config(folder: Path = Path("/w"), **changes: Any) -> KindConfig:
    usual = {
        "name": "c",
        "marker": str(folder / "c.json"),
        "models": str(folder / "models"),
        "data": str(folder / "data"),
    }
    return KindConfig(**(usual | changes))


def test_the_provider_shows_no_dependence_on_the_cluster() -> None:
    async def say(value: Any) -> Any:
        return value

    async def kept() -> tuple[Any, Any, bool]:
        cluster: set[Any] = {"the cluster"}
        output = component._apart(pulumi.Output(cluster, say("kubeconfig"), say(True), say(True)))
        return await output.resources(), await output.future(), await output.is_secret()

    loop = asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(kept()) == (set(), "kubeconfig", True)
    finally:
        loop.close()


def test_every_node_mounts_models_data_and_marker() -> None:
    nodes = render(config(workers=2))["nodes"]
    assert [node["role"] for node in nodes] == ["control-plane", "worker", "worker"]
    for node in nodes:
        read_only = {mount["hostPath"]: mount.get("readOnly", False) for mount in node["extraMounts"]}
        assert read_only == {"/w/models": False, "/w/data": True, "/w/c.json": True}


@pytest.mark.parametrize("own", [True, False])
def test_the_default_pod_network_goes_only_with_our_node_image(own: bool) -> None:
    assert render(config(own_image=own))["networking"].get("disableDefaultCNI", False) is own


def test_the_api_server_is_not_open_to_the_network() -> None:
    networking = render(config(api_server_port=6443))["networking"]
    assert networking == {"apiServerAddress": "127.0.0.1", "apiServerPort": 6443}


def test_registries_are_reached_without_tls() -> None:
    assert 'server = "http://c-registry:5000"' in hosts_toml("c-registry:5000")


def node(name: str, source: str, running: bool = True) -> dict[str, Any]:
    mounts = [{"Destination": OWNER, "Source": source}]
    return {"Name": f"/{name}", "Mounts": mounts, "State": {"Running": running}}


class Engine:
    """Stands for kind and docker: `nodes` are what `docker inspect` tells, `calls` what was run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.calls: list[tuple[str, ...]] = []
        self.marker_at_create = False
        monkeypatch.setattr(ownership, "nodes", lambda name: self.nodes)
        monkeypatch.setattr(cluster, "output", self.run)

    def run(self, *command: str, stdin: str | None = None) -> str:
        self.calls.append(command[:3])
        if command[:3] == ("kind", "create", "cluster"):
            kubeconfig = Path(command[command.index("--kubeconfig") + 1])
            marker = kubeconfig.parent / "c.json"
            self.marker_at_create = marker.exists()
            self.nodes = [node("c-control-plane", str(marker))]
            kubeconfig.write_text("apiVersion: v1")
        if command[:3] == ("kind", "delete", "cluster"):
            self.nodes = []
        return ""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    return Engine(monkeypatch)


@pytest.fixture
def props(tmp_path: Path) -> dict[str, Any]:
    wanted = config(tmp_path)
    return {
        "config": json.dumps(wanted.__dict__),
        "image": None,
        "kubeconfigPath": str(tmp_path / "kubeconfig.yaml"),
        "project": str(tmp_path),
    }


def test_the_marker_is_there_before_kind_starts(engine: Engine, props: dict[str, Any]) -> None:
    ClusterProvider().create(props)
    assert engine.marker_at_create


def test_a_cluster_of_our_name_that_we_did_not_make_is_left_alone(
    engine: Engine, props: dict[str, Any]
) -> None:
    engine.nodes = [node("c-control-plane", "/another/clone/c.json")]
    with pytest.raises(ownership.ForeignClusterError, match=r"did not make.*\n.*fix: "):
        ClusterProvider().create(props)
    assert engine.calls == []


def test_so_is_one_whose_marker_we_have_not(engine: Engine, props: dict[str, Any], tmp_path: Path) -> None:
    engine.nodes = [node("c-control-plane", str(tmp_path / "c.json"))]
    with pytest.raises(ownership.ForeignClusterError):
        ClusterProvider().create(props)
    assert engine.calls == []


def test_what_a_killed_run_left_is_removed_first(
    engine: Engine, props: dict[str, Any], tmp_path: Path
) -> None:
    marker = tmp_path / "c.json"
    ownership.write_marker(marker, "c", tmp_path)
    engine.nodes = [node("c-control-plane", str(marker), running=False)]
    ClusterProvider().create(props)
    assert engine.calls == [("kind", "delete", "cluster"), ("kind", "create", "cluster")]


def test_read_notices_a_deleted_cluster(engine: Engine, props: dict[str, Any]) -> None:
    made = ClusterProvider().create(props)
    assert ClusterProvider().read("c", made.outs or {}).id == "c"
    engine.nodes = []
    assert ClusterProvider().read("c", made.outs or {}).id == GONE


def test_a_deleted_cluster_is_replaced_without_a_refresh(engine: Engine, props: dict[str, Any]) -> None:
    outs = ClusterProvider().create(props).outs or {}
    assert ClusterProvider().diff("c", outs, props).changes is False
    engine.nodes = []
    assert ClusterProvider().diff("c", outs, props).replaces == ["config"]


def test_each_cluster_made_is_another_instance(engine: Engine, props: dict[str, Any]) -> None:
    first = ClusterProvider().create(props).outs or {}
    second = ClusterProvider().create(props).outs or {}
    assert first["instance"] != second["instance"]


def test_delete_leaves_no_file_behind(engine: Engine, props: dict[str, Any], tmp_path: Path) -> None:
    outs = ClusterProvider().create(props).outs or {}
    ClusterProvider().delete("c", outs)
    assert not (tmp_path / "c.json").exists()
    assert not Path(props["kubeconfigPath"]).exists()


def test_a_busy_port_is_said_before_anything_is_made(
    engine: Engine, props: dict[str, Any], tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        wanted = config(tmp_path, api_server_port=port)
        with pytest.raises(cluster.PortTakenError, match=f"apiServerPort = {port} is in use"):
            ClusterProvider().create(props | {"config": json.dumps(wanted.__dict__)})
    assert engine.calls == []


def test_each_node_has_a_route_to_the_pods_of_the_others() -> None:
    nodes = [
        {
            "metadata": {"name": name},
            "spec": {"podCIDR": f"10.244.{number}.0/24"},
            "status": {"addresses": [{"type": "InternalIP", "address": f"172.18.0.{number}"}]},
        }
        for number, name in enumerate(("a", "b", "c"))
    ]
    assert cluster.routes(nodes)["b"] == [("10.244.0.0/24", "172.18.0.0"), ("10.244.2.0/24", "172.18.0.2")]


def test_a_registry_of_our_name_that_is_not_ours_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    found = {
        "Config": {"Labels": {registry.PROJECT: "/another/clone"}},
        "State": {"Running": True},
        "Id": "1",
    }
    monkeypatch.setattr(docker, "container", lambda name: found)
    monkeypatch.setattr(registry, "output", lambda *command: calls.append(command))
    with pytest.raises(registry.ForeignRegistryError, match="fix: "):
        registry.create("c-registry", "registry:3", "/this/clone")
    assert calls == []
