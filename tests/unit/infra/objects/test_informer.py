"""What an informer knows after each of the server's answers, and whom it wakes."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from infra.objects import informer
from infra.objects.api import ApiAddress
from infra.objects.informer import Informer, Selection, shared
from infra.objects.kinds import POD
from tests.e2e.waiting import wait_until
from tests.unit.infra.objects.played_api import Request, play

PODS = "/api/v1/namespaces/team/pods"


def pod(name: str, of: str = "a", version: str = "2", phase: str = "Pending") -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid of {name}", "labels": {"job": of}, "resourceVersion": version}
    return {"metadata": metadata, "status": {"phase": phase}}


def of_job(each: dict[str, Any]) -> str:
    return str(each["metadata"]["labels"]["job"])


def listed(*pods: dict[str, Any], version: str = "1") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version}, "items": [*pods]}


def events(*told: tuple[str, dict[str, Any]]) -> str:
    return "".join(json.dumps({"type": kind, "object": found}) + "\n" for kind, found in told)


class Server:
    """Gives its answers one after the other; the watch after the last of them stands still."""

    def __init__(self, *answers: object) -> None:
        self.answers, self.asked = deque(answers), list[Request]()
        self.closed = threading.Event()

    def __call__(self, request: Request) -> object:
        assert request.path == PODS
        self.asked.append(request)
        if not self.answers:
            self.closed.wait()
            return ""
        return self.answers.popleft()

    @property
    def kinds(self) -> list[str]:
        return ["watch" if "watch" in each.query else "list" for each in self.asked]


class StartingServer(Server):
    """Refuses the first watch, as a server does that has not read its roles yet; the second one tells of pod y."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: list[float] = []

    def __call__(self, request: Request) -> object:
        self.asked.append(request)
        if "watch" not in request.query:
            return listed(pod("x"))
        self.watched.append(time.monotonic())
        number = self.kinds.count("watch")
        if number > 2:
            self.closed.wait()
        return 403 if number == 1 else events(("ADDED", pod("y"))) if number == 2 else ""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def started(stack: ExitStack, monkeypatch: pytest.MonkeyPatch, *answers: object) -> tuple[Informer, Server]:
    server = Server(*answers)
    play(monkeypatch, server)
    stack.callback(server.closed.set)
    made = stack.enter_context(shared(Selection(ApiAddress(None), POD, "team", of_job, labels="job")))
    return made, server


def phases(made: Informer, key: str = "a") -> dict[str, str]:
    return {each["metadata"]["name"]: each["status"]["phase"] for each in made.objects(key)}


def test_a_watch_goes_on_from_the_list(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    told = events(
        ("ADDED", pod("y")),
        ("MODIFIED", pod("x", version="3", phase="Running")),
        ("ADDED", pod("z", of="b", version="4")),
        ("DELETED", pod("y", version="5")),
        ("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
    )
    made, server = started(stack, monkeypatch, listed(pod("x")), told)
    wait_until("the second watch begins", lambda: len(server.asked) == 3)
    assert (phases(made), phases(made, "b"), phases(made, "c")) == ({"x": "Running"}, {"z": "Pending"}, {})
    assert [each.query.get("labelSelector") for each in server.asked] == ["job"] * 3
    watches = [each.query for each in server.asked if "watch" in each.query]
    assert [each["resourceVersion"] for each in watches] == ["1", "9"]
    assert {each["allowWatchBookmarks"] for each in watches} == {"true"}
    assert {each["timeoutSeconds"] for each in watches} == {str(informer.WATCH_S)}
    assert informer.WATCH_S < informer.ANSWER_S, "else a watch without news would be taken for a broken one"


@pytest.mark.parametrize(
    "end",
    [
        events(("ERROR", {"code": 410, "reason": "Expired"})),
        410,
        429,
        503,
        ConnectionResetError(),
        '{"type": "ADDED", "obj',
    ],
    ids=["too old", "refused as too old", "too many", "away", "reset", "torn"],
)
def test_what_ends_a_watch_has_all_listed_again(
    end: object, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, server = started(stack, monkeypatch, listed(pod("x")), end, listed(pod("y"), version="7"))
    wait_until("another watch begins", lambda: len(server.asked) == 4)
    assert server.kinds == ["list", "watch", "list", "watch"]
    assert server.asked[-1].query["resourceVersion"] == "7"
    assert phases(made) == {"y": "Pending"}


def test_who_may_not_watch_lists(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = (listed(pod("x")), 403, listed(), listed(pod("y")), listed(pod("z")))
    made, server = started(stack, monkeypatch, *answers)
    wait_until("all are listed", lambda: len(server.asked) > len(answers))
    assert server.kinds[: len(answers)] == ["list", "watch", "list", "list", "list"]
    assert phases(made) == {"z": "Pending"}


def test_a_server_that_refused_a_watch_while_it_started_is_asked_for_one_again(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause_s = 0.1
    monkeypatch.setattr(informer, "STARTING_S", pause_s)
    server = StartingServer()
    play(monkeypatch, server)
    stack.callback(server.closed.set)
    made = stack.enter_context(shared(Selection(ApiAddress(None), POD, "team", of_job)))
    wait_until("the watch has told", lambda: "y" in phases(made))
    assert server.watched[1] - server.watched[0] >= pause_s, "not at once"


@pytest.mark.parametrize("error", [403, 404, 500, ConnectionResetError("reset"), KeyError("a bug")])
def test_what_a_list_meets_is_raised_until_one_succeeds(
    error: object, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    proceed = threading.Event()

    class Held(deque[object]):
        def popleft(self) -> object:
            if len(self) == 1:
                proceed.wait()
            return super().popleft()

    server = Server()
    server.answers = Held([error, listed(pod("x"))])
    play(monkeypatch, server)
    stack.callback(server.closed.set)
    stack.callback(proceed.set)
    made = stack.enter_context(shared(Selection(ApiAddress(None), POD, "team", of_job)))
    changed = threading.Event()
    stack.enter_context(made.telling("a", changed))
    for _ in range(2):
        with pytest.raises((ApiException, ConnectionResetError, KeyError)) as raised:
            made.objects("a")
        assert getattr(raised.value, "status", error) == error
    changed.clear()
    proceed.set()
    assert changed.wait(10)
    assert phases(made) == {"x": "Pending"}


def test_only_those_are_woken_whom_it_concerns(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = started(stack, monkeypatch, listed(pod("x")))
    made.objects("a")
    changed = {key: threading.Event() for key in "abc"}
    for key, event in changed.items():
        stack.enter_context(made.telling(key, event))
    made._take(pod("x", phase="Running"), is_gone=False)
    assert [key for key, event in changed.items() if event.is_set()] == ["a"]
    made._replace([pod("x", phase="Running"), pod("y", of="b")])
    assert [key for key, event in changed.items() if event.is_set()] == ["a", "b"]


def test_all_share_one_as_long_as_anybody_uses_it(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    made, server = started(stack, monkeypatch, listed(pod("x")))
    selection = made.selection
    with shared(selection) as second, shared(selection) as third:
        assert made is second is third
        wait_until("it watches", lambda: server.kinds == ["list", "watch"])
    assert not made._ended.is_set()
    stack.close()
    assert made._ended.is_set()
    with shared(selection) as another:
        assert another is not made
