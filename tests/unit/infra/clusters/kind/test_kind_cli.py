"""The kind cluster: its configuration, whose it is, and its life."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pulumi
import pytest

from infra import paths
from infra.clusters.kind import component, kind_cli, ownership
from infra.clusters.kind.config import KindConfig, render
from infra.clusters.kind.providers import ClusterProvider
from infra.dynamic import GONE
from tests.unit.infra.clusters.kind.standin import Engine, node


def config(**changes: Any) -> KindConfig:
    return KindConfig(**({"name": "c", "stack": "dev"} | changes))


def test_the_provider_shows_no_dependence_on_the_cluster() -> None:
    async def say(value: Any) -> Any:
        return value

    async def kept() -> tuple[Any, Any, bool]:
        origins: set[Any] = {"the cluster"}
        output = component.without_dependencies(
            pulumi.Output(origins, say("kubeconfig"), say(True), say(True))
        )
        return await output.resources(), await output.future(), await output.is_secret()

    loop = asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(kept()) == (set(), "kubeconfig", True)
    finally:
        loop.close()


def test_every_node_mounts_models_data_and_marker() -> None:
    nodes = render(config(workers=2), own_image=True, uid="one")["nodes"]
    assert [each["role"] for each in nodes] == ["control-plane", "worker", "worker"]
    for mounts in (each["extraMounts"] for each in nodes):
        read_only = {mount["hostPath"]: mount.get("readOnly", False) for mount in mounts}
        places = [paths.models("dev"), paths.DATA, paths.marker("c")]
        assert read_only == dict(zip(map(str, places), [False, True, True], strict=True))


def test_each_node_names_the_creation_that_made_it() -> None:
    """Else a creation that fails could not tell its own nodes from those of a quicker one."""
    mounts = render(config(), own_image=True, uid="one")["nodes"][0]["extraMounts"]
    found = [{"Destination": each["containerPath"], "Source": each["hostPath"]} for each in mounts]
    assert ownership.was_made_by({"Mounts": found}, "one")
    assert not ownership.was_made_by({"Mounts": found}, "another")


@pytest.mark.parametrize("own", [True, False])
def test_the_default_pod_network_goes_only_with_our_node_image(own: bool) -> None:
    assert render(config(), own, "one")["networking"].get("disableDefaultCNI", False) is own


def test_the_api_server_is_not_open_to_the_network() -> None:
    networking = render(config(api_server_port=6443), own_image=False, uid="one")["networking"]
    assert networking == {"apiServerAddress": "127.0.0.1", "apiServerPort": 6443}


def test_the_state_names_no_folder_of_the_clone(engine: Engine, props: dict[str, Any]) -> None:
    outs = ClusterProvider().create(props).outs or {}
    assert str(paths.ROOT) not in json.dumps(outs | {"kubeconfig": ""})


def test_the_marker_is_there_before_kind_starts(engine: Engine, props: dict[str, Any]) -> None:
    ClusterProvider().create(props)
    assert engine.marker_at_create
    assert not engine.marker_at_create.finished


@pytest.mark.parametrize("role", [None, "worker"], ids=["no node", "a worker alone"])
def test_a_cluster_without_its_control_plane_is_gone(
    engine: Engine, props: dict[str, Any], role: str | None
) -> None:
    outs = ClusterProvider().create(props).outs or {}
    assert ClusterProvider().read("c", outs).id == "c"
    assert ClusterProvider().diff("c", outs, props).changes is False
    engine.nodes = [node("c-worker", paths.marker("c"), role=role)] if role else []
    assert ClusterProvider().read("c", outs).id == GONE
    assert ClusterProvider().diff("c", outs, props).replaces == ["config"], "without a refresh, too"


def test_delete_leaves_no_file_behind_and_the_next_cluster_has_another_uid(
    engine: Engine, props: dict[str, Any]
) -> None:
    first = ClusterProvider().create(props).outs or {}
    ClusterProvider().delete("c", first)
    assert not paths.marker("c").exists()
    assert not paths.kubeconfig("c").exists()
    assert (ClusterProvider().create(props).outs or {})["instance"] != first["instance"]


def test_a_busy_port_is_said_before_anything_is_made(engine: Engine, props: dict[str, Any]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        wanted = config(api_server_port=port)
        with pytest.raises(kind_cli.PortTakenError, match=f"apiServerPort = {port} is in use"):
            ClusterProvider().create(props | {"config": wanted.encode()})
    assert engine.calls == []
