"""Every kind of cluster keeps to the protocol: only whoever owns a cluster proves that it is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra import paths
from infra.cluster_kinds import KINDS, ClusterKind
from infra.clusters import selection
from infra.clusters.kind import kind_cli
from infra.clusters.kind.config import KindConfig
from infra.clusters.kind.providers import ClusterProvider, replaced_for
from infra.config.cluster import ClusterConfig
from tests.unit.conftest import Fake
from tests.unit.infra.clusters.kind.standin import Engine, node

PROPS = {"name": "c", "config": KindConfig(name="c", stack="dev").encode(), "instance": "one"}
"""Properties of a cluster `c`, of any kind."""


def lost(kind: ClusterKind) -> bool:
    return selection.is_lost(kind, PROPS)


def test_each_kind_has_a_row_a_folder_and_a_protocol() -> None:
    folders = {each.parent.name for each in Path(selection.__file__).parent.glob("*/__init__.py")}
    assert folders == {*ClusterKind} == {*KINDS} == {*selection.PROTOCOLS}


def test_no_key_of_the_section_is_of_no_kind() -> None:
    named = [key for traits in KINDS.values() for key in traits.keys]
    assert {*named} <= {each.alias for each in ClusterConfig.model_fields.values()}


@pytest.mark.parametrize("kind", [kind for kind in ClusterKind if kind.resource])
def test_a_cluster_of_the_state_has_a_name(kind: ClusterKind) -> None:
    assert selection.PROTOCOLS[kind].name(PROPS) == "c"


@pytest.mark.parametrize("kind", [kind for kind in ClusterKind if not kind.is_ours])
def test_somebody_elses_is_never_proved_gone(kind: ClusterKind) -> None:
    assert not lost(kind)
    assert not selection.PROTOCOLS[kind].goes(PROPS)


@pytest.mark.parametrize(
    ("marker", "gone"),
    [(None, True), ("another.json", True), ("c.json", False)],
    ids=["none", "others", "ours"],
)
def test_the_engine_says_whether_a_kind_cluster_is_gone(
    engine: Engine, marker: str | None, gone: bool
) -> None:
    engine.nodes = [node("c-control-plane", paths.markers() / marker, "exited")] if marker else []
    assert lost(ClusterKind.KIND) is gone


@pytest.mark.parametrize(
    ("marker", "gone"),
    [
        ({"id": "two", "finished": False}, True),
        ({"id": "one", "finished": False}, False),
        ({"id": "two", "finished": True}, False),
        ({"id": "two"}, False),
        ([], False),
    ],
    ids=["its successor is unfinished", "it is unfinished itself", "finished", "an older marker", "damaged"],
)
def test_a_cluster_whose_replacement_was_interrupted_is_gone(engine: Engine, marker: Any, gone: bool) -> None:
    """The half-made node of its successor is no sign of it. Else `make up` would wait for its API server for ever."""
    paths.marker("c").parent.mkdir(parents=True)
    paths.marker("c").write_text(json.dumps(marker))
    engine.nodes = [node("c-control-plane", paths.marker("c"))]
    assert lost(ClusterKind.KIND) is gone


@pytest.mark.parametrize("marker", [None, "torn", json.dumps({"id": "one", "finished": True})])
@pytest.mark.parametrize("added", ["nothing", "c-worker", "c-control-plane2"])
def test_what_somebody_adds_to_a_cluster_or_takes_from_its_marker_is_no_proof(
    engine: Engine, marker: str | None, added: str
) -> None:
    """Else the next `make up` would give up all objects of a cluster that is there."""
    paths.marker("c").parent.mkdir(parents=True)
    if marker is not None:
        paths.marker("c").write_text(marker)
    engine.nodes = [node("c-control-plane", paths.marker("c"))]
    if added != "nothing":
        role = "worker" if added == "c-worker" else "control-plane"
        engine.nodes.append(node(added, Path("/elsewhere.json"), role=role))
    assert not lost(ClusterKind.KIND)


MADE = {"nodes": ["c-control-plane"]}
JUDGES: dict[str, Callable[[], object]] = {
    "read": lambda: kind_cli.read("c", "one"),
    "replacement": lambda: replaced_for(PROPS | MADE, PROPS),
    "diff": lambda: ClusterProvider().diff("c", PROPS | MADE, PROPS).replaces,
    "objects given up": lambda: selection.is_lost(ClusterKind.KIND, PROPS),
}
"""What asks whether the cluster of a state is there."""


@pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES)
def test_a_node_that_somebody_adds_changes_no_judgement(engine: Engine, judge: Callable[[], object]) -> None:
    """A refresh that took the cluster for gone would take it out of the state."""
    paths.marker("c").parent.mkdir(parents=True)
    paths.marker("c").write_text(json.dumps({"id": "one", "finished": True}))
    engine.nodes = [node("c-control-plane", paths.marker("c"))]
    before = judge()
    engine.nodes.append(node("c-worker", Path("/elsewhere.json"), role="worker"))
    assert judge() == before
    assert before not in (None, True, ["config"], ["cluster c is gone"])


@pytest.mark.parametrize(
    ("script", "gone"),
    [
        ("echo 'error: no matching snaps installed' >&2; exit 1", True),
        ("echo 'error: cannot communicate with server' >&2; exit 1", False),
        ("echo microk8s", False),
    ],
)
def test_snapd_says_whether_microk8s_is_gone(fake: Fake, script: str, gone: bool) -> None:
    fake("snap", script)
    assert lost(ClusterKind.MICROK8S) is gone
