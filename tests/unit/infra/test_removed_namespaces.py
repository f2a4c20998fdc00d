"""When a namespace of the stack's would be left behind, and whom that would hurt."""

from __future__ import annotations

import pytest

from infra import decision, dependents
from infra.config import ConfigError
from infra.objects.look import Look
from infra.objects.stack_state import StackState
from tests.unit.infra.objects.played_api import Request, look, play
from tests.unit.infra.samples import stack

HELD = StackState(objects=frozenset({"Namespace/old"}))
NOTES = ["ConfigMap/old/notes"]


class Server:
    """Has the namespace, made again by somebody, or answers with the status of an error; `others` are in it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.status = 200
        self.others = NOTES
        self.asked: list[str] = []
        play(monkeypatch, self.namespace)
        monkeypatch.setattr(dependents, "of", self.of)

    def namespace(self, request: Request) -> object:
        self.asked.append(request.path)
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
    assert server.asked == asked


def test_a_namespace_that_is_gone_is_nobodys(server: Server) -> None:
    server.status = 404
    ensure(HELD, "new")


def test_a_cluster_that_is_not_there_says_nothing(server: Server) -> None:
    ensure(HELD, "new", kubeconfig="/nowhere/kubeconfig")
    assert server.asked == []
