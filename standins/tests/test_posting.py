"""Ctrl-C while a creation is unclear: wherever it comes, the state keeps the object as unconfirmed."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pulumi_standins.kubernetes.errors import AmbiguousError, ApiError, CancelledError, UnconfirmedError
from pulumi_standins.kubernetes.patience import Patience
from pulumi_standins.kubernetes.posting import post

from standins.tests.samples import config_map

MISSING = {"kind": "Status", "reason": "NotFound", "message": "not found"}


class Client:
    """Loses the answer of every POST, does not have the object, and is interrupted at a given step.

    Parameters:
        stop: the step, by its place in `steps`, at which the user asks to stop; whoever waits then is woken.
        notices: whether that very request ends by it, as one does that waits for a server that is away.
    """

    def __init__(self, stop: int, *, notices: bool) -> None:
        self.steps: list[str] = []
        self._stop, self._notices = stop, notices
        self.cancelled = threading.Event()
        patience = Patience(600, self.cancelled, print)
        self.transport = SimpleNamespace(patience=patience, server_time=lambda: 0.0)

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if len(self.steps) - 1 == self._stop:
            self.cancelled.set()
            if self._notices:
                raise CancelledError

    def create(self, _obj: Any) -> Any:
        self._step("create")
        raise AmbiguousError("the answer is lost")

    def get(self, *_: Any) -> Any:
        self._step("look")
        raise ApiError(404, MISSING)


@pytest.mark.parametrize("notices", [True, False], ids=["in the request", "in the pause after it"])
@pytest.mark.parametrize("step", range(1, 6))
def test_a_creation_that_is_cancelled_while_unclear_stays_in_the_state(
    monkeypatch: pytest.MonkeyPatch, step: int, notices: bool
) -> None:
    monkeypatch.setattr("pulumi_standins.kubernetes.patience._LONGEST_PAUSE", 0.01)
    client, wanted = Client(step, notices=notices), config_map("n", a="1")
    session: Any = SimpleNamespace(client=client, cancelled=client.cancelled)
    with pytest.raises(UnconfirmedError) as kept:
        post(session, wanted)
    assert kept.value.sent == wanted
    assert "cancelled by the user" in str(kept.value)
    assert len(client.steps) - step in (1, 2), "nothing more is sent than what was under way"


def test_a_creation_that_was_not_sent_is_not_in_the_state() -> None:
    client = Client(0, notices=True)
    session: Any = SimpleNamespace(client=client, cancelled=client.cancelled)
    with pytest.raises(CancelledError):
        post(session, config_map("n"))
