"""Only the engine that holds a cluster proves that it is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from infra import docker, paths
from infra.cluster_kinds import ClusterKind
from infra.clusters import selection
from infra.clusters.kind import kind_cli, ownership, registry
from infra.clusters.kind.config import KindConfig
from infra.clusters.kind.providers import ClusterProvider, replaced_for
from tests.unit.infra.clusters.kind.standin import Engine, node

ELSEWHERE = {"id": "CCCC:DDDD", "host": "tcp://build-machine:2376"}
CONFIG = KindConfig(name="c", stack="dev")

# Whatever would take a cluster that the engine does not hold for one that is gone.
JUDGES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "refresh": lambda props, made: ClusterProvider().read("c", made),
    "diff": lambda props, made: ClusterProvider().diff("c", made, props),
    "delete": lambda props, made: ClusterProvider().delete("c", made),
    "replacement announced": lambda props, made: replaced_for(made, props),
    "made anew": lambda props, made: kind_cli.create(CONFIG, None),
    "repair before Pulumi": lambda props, made: selection.repair("c", print),
    "objects given up": lambda props, made: selection.is_lost(ClusterKind.KIND, made),
    "early refusal of others": lambda props, made: ownership.refuse_others("c"),
    "what Pulumi's deletion left": lambda props, made: selection.remove_unfinished("c", "dev"),
}


@pytest.fixture
def made(engine: Engine, props: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(registry, "own", lambda name: None)
    return ClusterProvider().create(props).outs or {}


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(
    "present", [ELSEWHERE, {"id": "", "host": "unix:///run/podman.sock"}], ids=["id", "none"]
)
def test_another_engine_proves_nothing(
    engine: Engine, props: dict[str, Any], made: dict[str, Any], judge: str, present: dict[str, str]
) -> None:
    there = str(engine.identity["host"])
    engine.nodes, engine.identity = [], present
    with pytest.raises(ownership.AnotherEngineError) as refused:
        JUDGES[judge](props, made)
    assert f"export DOCKER_HOST={there}" in str(refused.value)
    assert "nothing was touched" in str(refused.value)
    assert paths.marker("c").exists()


@pytest.mark.parametrize("judge", JUDGES)
def test_an_engine_that_does_not_answer_proves_nothing(
    props: dict[str, Any], made: dict[str, Any], monkeypatch: pytest.MonkeyPatch, judge: str
) -> None:
    def silent(label: str) -> list[Any]:
        raise docker.EngineError("the container engine does not answer")

    monkeypatch.setattr(docker, "labelled", silent)
    with pytest.raises(docker.EngineError, match="does not answer"):
        JUDGES[judge](props, made)
    assert paths.marker("c").exists()


@pytest.mark.parametrize(
    "present",
    [
        {"id": "AAAA:BBBB", "host": "ssh://reached-otherwise"},
        {"id": "CCCC:DDDD", "host": "unix:///var/run/docker.sock"},
    ],
    ids=["same engine by another way", "made anew in the same place"],
)
def test_the_engine_that_held_it_proves_that_it_is_gone(
    engine: Engine, made: dict[str, Any], present: dict[str, str]
) -> None:
    engine.nodes, engine.identity = [], present
    assert kind_cli.read("c") is None


def test_without_the_marker_whatever_engine_answers_decides(engine: Engine, made: dict[str, Any]) -> None:
    engine.nodes, engine.identity = [], ELSEWHERE
    paths.marker("c").unlink()
    assert kind_cli.read("c") is None


@pytest.mark.parametrize("ours", [True, False])
def test_a_marker_of_release_0_1_gets_the_engine_of_its_own_cluster(engine: Engine, ours: bool) -> None:
    marker = paths.marker("c")
    marker.parent.mkdir(parents=True)
    marker.write_text(json.dumps({"cluster": "c", "project": str(paths.ROOT), "id": "one"}))
    engine.nodes = [node("c-control-plane", marker if ours else marker.parent / "another.json")]
    assert (kind_cli.read("c") or {}).get("instance") == ("one" if ours else None)
    assert (ownership.read_marker("c") or ownership.Marker("")).engine == (engine.identity if ours else {})
