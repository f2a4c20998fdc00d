"""What a creation does with what is there: only a cluster that was never finished is deleted unasked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from infra import agreed, paths
from infra.clusters import foreign_objects, replacement
from infra.clusters.kind import ownership, predecessor
from infra.clusters.kind.ownership import Standing
from infra.clusters.kind.predecessor import Step
from infra.clusters.kind.providers import ClusterProvider
from infra.dynamic import GONE
from infra.objects.look import UnknownError
from tests.unit.infra.clusters.kind.standin import Engine, given, node

OWNER_ID = "0123456789abcdef"
OLD = {"cluster": "c", "project": "/clone", "id": "one", "engine": {"id": "AAAA:BBBB", "host": "unix:///x"}}
# The marker's text; None for no file.
MARKERS: dict[str, str | None] = {
    "absent": None,
    "unfinished": json.dumps(OLD | {"finished": False}),
    "finished": json.dumps(OLD | {"finished": True}),
    "of 4e9ca64": json.dumps(OLD),
    "of release 0.1": json.dumps({"cluster": "c", "id": "one"}),
    "empty": "",
    "torn": json.dumps(OLD)[:20],
    "no object": "[]",
    "without an id": json.dumps({"cluster": "c"}),
    "no text": "\udcff",
}
UNREADABLE = ("absent", "empty", "torn", "no object", "without an id", "no text")
NODES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "none": list,
    "ours": lambda: [_node("control-plane"), _node("worker")],
    "ours, stopped": lambda: [_node("control-plane", status="exited")],
    "a worker of ours": lambda: [_node("worker")],
    "others'": lambda: [_node("control-plane", theirs=True)],
    "partly ours": lambda: [_node("control-plane"), _node("worker", theirs=True)],
}
WORDS: dict[str, dict[str, str]] = {
    "nothing": {},
    "ADOPT": {agreed.ADOPT: OWNER_ID},
    "REPLACE_CLUSTER": {agreed.REPLACE_CLUSTER: "yes"},
    "both": {agreed.ADOPT: OWNER_ID, agreed.REPLACE_CLUSTER: "yes"},
}
MAKES, CLEARS = ["kind create cluster"], ["kind delete cluster", "kind create cluster"]


def _node(role: str, *, status: str = "running", theirs: bool = False) -> dict[str, Any]:
    marker = Path("/another/clone/c.json") if theirs else paths.marker("c")
    return node(f"c-{role}", marker, status, role)


def expected(marker: str, nodes: str, words: str) -> list[str] | None:
    """What kind is called for; None for a refusal. Written down here once more, in the words of the user."""
    adopts, replaces = words in ("ADOPT", "both"), words == "REPLACE_CLUSTER"
    if nodes == "none":
        return MAKES
    if nodes in ("others'", "partly ours"):
        return None
    if marker in UNREADABLE:
        return [] if adopts and nodes != "a worker of ours" else None
    if marker == "unfinished":
        return None if adopts else CLEARS
    if nodes == "a worker of ours":
        return CLEARS
    return [] if adopts else CLEARS if replaces else None


@pytest.fixture(autouse=True)
def _held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_objects, "titles", lambda address, stack: ["namespaces/precious"])


@pytest.mark.parametrize(("marker", "nodes", "words"), list(product(MARKERS, NODES, WORDS)))
def test_each_marker_with_each_kind_of_nodes_and_each_word_of_the_user(
    engine: Engine,
    props: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    marker: str,
    nodes: str,
    words: str,
) -> None:
    for name, value in WORDS[words].items():
        monkeypatch.setenv(name, value)
    paths.marker("c").parent.mkdir(parents=True)
    paths.kubeconfig("c").parent.mkdir(parents=True)
    paths.kubeconfig("c").write_text("apiVersion: v1")
    if (text := MARKERS[marker]) is not None:
        paths.marker("c").write_bytes(text.encode(errors="surrogateescape"))
    engine.nodes = NODES[nodes]()
    before = list(engine.nodes)
    wanted = expected(marker, nodes, words)
    if wanted is None:
        with pytest.raises((ownership.ForeignClusterError, replacement.ReplacementRefusedError)) as refused:
            ClusterProvider().create(props)
        assert engine.called("kind") == []
        assert engine.nodes == before
        for part in ("cluster", "c", "fix: "):
            assert part in str(refused.value)
        return
    outs = ClusterProvider().create(props).outs or {}
    assert engine.called("kind") == wanted
    assert outs["instance"]
    if not wanted:
        assert engine.nodes == before
        assert (found := ownership.read_marker("c"))
        assert (found.uid, found.finished) == (outs["instance"], True)


def test_each_standing_has_a_step_whatever_the_user_says() -> None:
    for steps in (predecessor.UNASKED, predecessor.REPLACING, predecessor.ADOPTING):
        assert steps.keys() == {*Standing}
    unasked = {each for each, step in predecessor.UNASKED.items() if step is Step.CLEAR}
    assert unasked == {Standing.UNFINISHED, Standing.REMAINS}


def test_the_refusal_of_a_finished_cluster_says_all_that_is_needed(
    engine: Engine, props: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given(engine, Standing.FINISHED)
    with pytest.raises(replacement.ReplacementRefusedError) as refused:
        ClusterProvider().create(props)
    for part in (
        *(
            "kind cluster c exists",
            "its creation was finished",
            "nothing was touched",
            "namespaces/precious",
        ),
        *("ADOPT=", "make status STACK=dev", "PULUMI_BACKEND_URL", "REPLACE_CLUSTER=yes"),
    ):
        assert part in str(refused.value)
    assert f"ADOPT={OWNER_ID}" in str(predecessor.refusal(Standing.FINISHED, "c", "dev", OWNER_ID))

    def silent(address: Any, stack: str) -> list[str]:
        raise UnknownError("connection refused")

    monkeypatch.setattr(foreign_objects, "titles", silent)
    with pytest.raises(replacement.ReplacementRefusedError, match="cannot be listed now: connection refused"):
        ClusterProvider().create(props)


class TestFinished:
    """The marker says so once the nodes are Ready and the state has the cluster."""

    def test_an_interruption_before_the_state_has_it_is_cleaned_unasked(
        self, engine: Engine, props: dict[str, Any]
    ) -> None:
        first = ClusterProvider().create(props).outs or {}  # and the run is killed
        engine.calls.clear()
        assert (ClusterProvider().create(props).outs or {})["instance"] != first["instance"]
        assert engine.called("kind") == CLEARS

    def test_an_interruption_after_the_state_has_it_is_made_up_for_by_the_next_look(
        self, engine: Engine, props: dict[str, Any]
    ) -> None:
        made = ClusterProvider().create(props).outs or {}
        assert ownership.standing("c") is Standing.UNFINISHED
        assert (ClusterProvider().read("c", made).outs or {})["instance"] == made["instance"]
        assert ownership.standing("c") is Standing.FINISHED

    def test_a_cluster_in_the_state_is_gone_where_an_unfinished_one_has_its_place(
        self, engine: Engine, props: dict[str, Any]
    ) -> None:
        """Its replacement was interrupted. The look does not finish what was not made whole."""
        old = ClusterProvider().create(props).outs or {}
        ClusterProvider().delete("c", old)
        ClusterProvider().create(props)
        assert ClusterProvider().read("c", old).id == GONE
        assert ownership.standing("c") is Standing.UNFINISHED

    def test_the_id_of_another_cluster_finishes_nothing(self, engine: Engine, props: dict[str, Any]) -> None:
        ClusterProvider().create(props)
        ownership.finish("c", "another")
        assert ownership.standing("c") is Standing.UNFINISHED

    def test_a_marker_that_cannot_be_written_leaves_the_old_one_whole(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given(engine, Standing.UNFINISHED)
        before = ownership.read_marker("c")

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            ownership.finish("c", before.uid if before else "")
        assert ownership.read_marker("c") == before

    def test_without_a_marker_nothing_is_written(self, engine: Engine) -> None:
        ownership.finish("c", "one")
        assert not paths.marker("c").exists()


@pytest.mark.parametrize("text", [None, "", "[]"])
def test_a_cluster_in_the_state_is_taken_down_without_its_marker(
    engine: Engine, props: dict[str, Any], text: str | None
) -> None:
    made = ClusterProvider().create(props).outs or {}
    paths.marker("c").unlink() if text is None else paths.marker("c").write_text(text)
    ClusterProvider().delete("c", made)
    assert engine.nodes == []


@pytest.mark.parametrize("standing", [Standing.OTHERS, Standing.UNTOLD])
def test_what_is_not_known_to_be_ours_is_not_taken_down(engine: Engine, standing: Standing) -> None:
    before = given(engine, standing)
    with pytest.raises(ownership.ForeignClusterError):
        ClusterProvider().delete("c", {})
    assert engine.nodes == before
