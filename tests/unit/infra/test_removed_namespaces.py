"""When a namespace of the stack's would be left behind, and whom that would hurt."""

from __future__ import annotations

import pulumi
import pytest

from infra import decision, dependents, stack_plan
from infra.clusters.discovery import ClusterContents, contents_of
from infra.config import ConfigError
from infra.objects.adoption import Ownership
from infra.objects.look import Look
from infra.objects.stack_state import StackState
from infra.training_operator.plan import plan
from tests.unit.infra.objects.played_api import look, play
from tests.unit.infra.samples import stack

HELD = StackState(objects=frozenset({"Namespace/old"}))
NOTES = ["ConfigMap/old/notes"]


class Server:
    """Has the namespace, made again by somebody, or answers with the status of an error; `others` are in it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.status = 200
        self.others = NOTES
        self.asked = play(monkeypatch, lambda _: self.namespace())
        monkeypatch.setattr(dependents, "of", self.of)

    def namespace(self) -> object:
        return {"metadata": {"uid": "another"}} if self.status == 200 else self.status

    def of(self, look: Look, titles: list[str], own: frozenset[str], without: str) -> list[str]:
        assert own == HELD.objects
        return self.others if titles else []


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def ensure(held: StackState, *planned: str, kubeconfig: str | None = None) -> None:
    titles = {f"Namespace/{each}" for each in planned}
    decision.ensure_free(stack(), look(kubeconfig=kubeconfig), held, titles)


def test_others_objects_are_named_with_the_way_out(server: Server) -> None:
    with pytest.raises(
        ConfigError, match=r"(?s)trainstack:cluster.namespace = .*ConfigMap/old/notes.*fix: move.*`make down`"
    ):
        ensure(HELD, "new")


def test_many_are_counted(server: Server) -> None:
    server.others = [f"ConfigMap/old/{number}" for number in range(12)]
    with pytest.raises(ConfigError, match="and 2 more"):
        ensure(HELD, "new")


@pytest.mark.parametrize(
    ("held", "planned", "asked"),
    [(HELD, ["old", "new"], []), (StackState(), ["new"], []), (HELD, ["new"], ["/api/v1/namespaces/old"])],
    ids=["it stays", "nothing is held", "nobody is in it"],
)
def test_nobody_is_hurt(server: Server, held: StackState, planned: list[str], asked: list[str]) -> None:
    server.others = []
    ensure(held, *planned)
    assert [each.path for each in server.asked] == asked


def test_a_namespace_that_is_gone_is_nobodys(server: Server) -> None:
    server.status = 404
    ensure(HELD, "new")


def test_a_cluster_that_is_not_there_says_nothing(server: Server) -> None:
    ensure(HELD, "new", kubeconfig="/nowhere/kubeconfig")
    assert server.asked == []


def test_one_that_is_being_deleted_is_refused_and_a_preview_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be created in it, whoever created it."""
    going = {"metadata": {"name": "going", "deletionTimestamp": "2026-11-27T12:00:00Z"}}
    staying = {"metadata": {"name": "staying"}}
    found = [contents_of(lambda _, ours=ours: ours, [going, staying], [], [], []) for ours in (True, False)]  # type: ignore[misc]
    assert [each.leaving for each in found] == [{"going"}, {"going"}]
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warned.append)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    decision.ensure_lasting(found[0].leaving)
    assert warned == ["Namespace/going is being deleted, and nothing can be created in it"]
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    with pytest.raises(
        ConfigError, match=r"(?s)^Namespace/going is being deleted.*fix: wait until the namespace is gone"
    ):
        decision.ensure_lasting(found[0].leaving)
    decision.ensure_lasting(contents_of(lambda _: True, [staying], [], [], []).leaving)


@pytest.mark.parametrize(("name", "refused"), [("team", True), ("elsewhere", False)])
def test_only_a_namespace_that_the_stack_uses_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, refused: bool
) -> None:
    """The stack also asks for the namespace of an operator that somebody else has installed in another one."""
    known = stack(
        cluster={"kind": "existing", "namespace": "team"}, image={"reference": "x:1", "unpinned": True}
    )
    contents = ClusterContents(leaving=frozenset({name}), crd=True, operator=True)
    seen: list[object] = []
    monkeypatch.setattr(decision, "ensure_lasting", lambda names: seen.append(names))
    monkeypatch.setattr(decision, "ensure_shown", lambda *_, **__: None)
    monkeypatch.setattr(decision, "ensure_usable", lambda *_: None)
    monkeypatch.setattr(decision, "ensure_free", lambda *_: None)
    monkeypatch.setattr(decision, "needs_two_passes", lambda *_: False)
    owned = Ownership(StackState(), None, own_cluster=False)
    decision.decide(known, look(), owned, contents, stack_plan.of(known, plan(known, contents)))
    assert seen == [{name} if refused else set()]
