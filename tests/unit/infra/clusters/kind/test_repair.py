"""A kind cluster that is there is repaired: whatever its nodes and files suffered, nothing is replaced."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from infra import paths
from infra.clusters import selection
from infra.clusters.kind import ownership, registry, repair
from infra.clusters.kind.providers import ClusterProvider
from tests.unit.infra.clusters.kind.standin import Engine, node

STATES = ["created", "running", "paused", "restarting", "exited", "dead"]


@pytest.fixture
def made(engine: Engine, props: dict[str, Any]) -> dict[str, Any]:
    outs = ClusterProvider().create(props).outs or {}
    ownership.finish("c", outs["instance"])
    engine.calls.clear()
    return outs


@pytest.mark.parametrize("status", STATES)
def test_a_node_in_any_state_is_no_reason_for_a_replacement(
    engine: Engine, props: dict[str, Any], made: dict[str, Any], status: str
) -> None:
    engine.nodes = [node("c-control-plane", paths.marker("c"), status)]

    difference = ClusterProvider().diff("c", made, props)
    assert difference.replaces == []
    assert difference.changes is (status in repair.STARTED_BY)
    outs = ClusterProvider().update("c", made, props).outs or {}

    assert outs["instance"] == made["instance"]
    assert engine.called("kind") == []
    assert ClusterProvider().diff("c", outs, props).changes is False


@pytest.mark.parametrize("status", sorted(repair.STARTED_BY))
def test_a_refresh_starts_a_stopped_node_and_waits_for_its_api_server(
    engine: Engine, made: dict[str, Any], status: str
) -> None:
    engine.nodes = [node("c-control-plane", paths.marker("c"), status)]
    engine.silent = 3

    found = ClusterProvider().read("c", made)

    assert (found.id, (found.outs or {})["instance"]) == ("c", made["instance"])
    assert engine.calls[0] == f"docker {repair.STARTED_BY[status]} c-control-plane"
    assert sum("/readyz" in call for call in engine.calls) == 4


@pytest.mark.parametrize(
    "look",
    [lambda made: ClusterProvider().read("c", made), lambda made: selection.repair("c", print)],
    ids=["refresh", "before Pulumi"],
)
def test_an_api_server_that_stays_away_replaces_nothing(
    engine: Engine, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch, look: Callable[[Any], object]
) -> None:
    monkeypatch.setattr(registry, "own", lambda name: None)
    monkeypatch.setattr(repair, "READY_S", 0)
    engine.nodes = [node("c-control-plane", paths.marker("c"), "exited")]
    engine.silent = 1000
    told = r"(?s)did not answer.*nothing was replaced.*docker logs"
    with pytest.raises(repair.NotReadyError, match=told):
        look(made)


def test_a_deleted_kubeconfig_is_written_again(props: dict[str, Any], made: dict[str, Any]) -> None:
    paths.kubeconfig("c").unlink()
    assert ClusterProvider().diff("c", made, props).replaces == []
    found = ClusterProvider().read("c", made)
    assert (found.outs or {})["kubeconfig"] == made["kubeconfig"]
    assert paths.kubeconfig("c").stat().st_mode & 0o777 == 0o600


def test_a_deleted_marker_is_written_again_from_the_state(engine: Engine, made: dict[str, Any]) -> None:
    paths.marker("c").unlink()
    found = ClusterProvider().read("c", made)
    assert (found.outs or {})["instance"] == made["instance"]
    assert ownership.read_marker("c") == ownership.Marker(made["instance"], engine.identity)


def test_a_restarted_worker_gets_its_routes_again(engine: Engine, made: dict[str, Any]) -> None:
    """Whether or not it had to be started here: `docker restart` leaves it running, without routes."""
    worker = node("c-worker", paths.marker("c"), role="worker")
    engine.nodes.append(worker)
    ClusterProvider().read("c", made)
    routes = [call for call in engine.calls if "ip route replace" in call]
    assert routes == [
        "exec c-control-plane ip route replace 10.244.1.0/24 via 172.18.0.8",
        "exec c-worker ip route replace 10.244.0.0/24 via 172.18.0.15",
    ]


def test_the_control_plane_starts_first(engine: Engine, made: dict[str, Any]) -> None:
    marker = paths.marker("c")
    names = {"c-a-worker": "worker", "c-control-plane": "control-plane"}
    engine.nodes = [node(name, marker, "exited", role) for name, role in names.items()]
    ClusterProvider().read("c", made)
    assert engine.called("docker") == ["docker start c-control-plane", "docker start c-a-worker"]


def test_pods_count_as_started_only_after_the_node() -> None:
    begun = datetime.now(UTC)

    def pod(start: datetime, owner: str = "ReplicaSet") -> dict[str, Any]:
        state = {"running": {"startedAt": start.strftime("%Y-%m-%dT%H:%M:%SZ")}}
        status = {"containerStatuses": [{"ready": True, "state": state}]}
        return {"metadata": {"ownerReferences": [{"kind": owner}]}, "status": status}

    assert repair._started_after(pod(begun + timedelta(seconds=2)), begun)
    assert not repair._started_after(pod(begun - timedelta(minutes=1)), begun)
    assert repair._started_after(pod(begun - timedelta(minutes=1), "PyTorchJob"), begun), "it has ended"


class TestBeforePulumi:
    """What `make up` calls first."""

    @pytest.fixture(autouse=True)
    def _registry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "own", lambda name: {"Name": f"/{name}"})
        monkeypatch.setattr(registry, "start", lambda name, found: name == "c-registry")

    def test_it_says_what_it_did(self, engine: Engine, made: dict[str, Any]) -> None:
        engine.nodes = [node("c-control-plane", paths.marker("c"), "exited")]
        paths.kubeconfig("c").unlink()
        said: list[str] = []
        selection.repair("c", said.append)
        assert said == [
            "registry c-registry was stopped: started",
            "node c-control-plane was exited: started",
            "kubeconfig of cluster c was missing: written again",
        ]

    def test_a_cluster_that_was_never_finished_is_left_to_pulumi(self, engine: Engine) -> None:
        ownership.begin("c")
        engine.finished = False
        engine.nodes = [node("c-control-plane", paths.marker("c"), "exited")]
        selection.repair("c", print)
        assert not any("/readyz" in call for call in engine.calls), "nothing will answer"

    def test_without_a_cluster_nothing_is_run(self, engine: Engine) -> None:
        selection.repair("c", print)
        assert engine.calls == []

    def test_a_cluster_of_another_clone_is_refused(self, engine: Engine) -> None:
        engine.nodes = [node("c-control-plane", Path("/another/clone/c.json"))]
        with pytest.raises(
            ownership.ForeignClusterError, match="a kind cluster named c exists that this clone"
        ):
            selection.repair("c", print)
        assert engine.nodes, "it is left alone"

    def test_a_deleted_marker_makes_nobody_a_stranger(self, engine: Engine) -> None:
        engine.nodes = [node("c-control-plane", paths.marker("c"))]
        assert not paths.marker("c").exists()
        selection.repair("c", print)
