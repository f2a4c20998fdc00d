"""The operator that tests play: no job keeps it from the others."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException

from tests.matrix import played_operator


@pytest.mark.parametrize(
    "error", [ApiException(409), urllib3.exceptions.HTTPError("gone"), KeyError("status")]
)
@pytest.mark.parametrize("place", range(3))
def test_a_job_that_fails_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, error: Exception, place: int
) -> None:
    monkeypatch.setattr(played_operator, "PAUSE_S", 0)
    stopped, seen = threading.Event(), []

    def look_after(job: dict[str, Any]) -> None:
        seen.append(job["place"])
        if len(seen) == 6:
            stopped.set()
        if job["place"] == place:
            raise error

    played_operator.play(stopped, lambda: [{"place": each} for each in range(3)], look_after)
    assert seen == [0, 1, 2, 0, 1, 2]


def test_a_server_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(played_operator, "PAUSE_S", 0)
    stopped, failures = threading.Event(), [ApiException(503)]

    def listed() -> list[dict[str, Any]]:
        if failures:
            raise failures.pop()
        return [{"place": 0}]

    played_operator.play(stopped, listed, lambda _: stopped.set())
    assert stopped.is_set()
