"""The operator that tests play: no job keeps it from the others."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException

from infra.config.job import QUEUE_LABEL
from tests.matrix import played_operator
from tests.matrix.played_operator import BY_HAND, is_over, is_queued, waits

ENDED = {"completionTime": "2026-01-01T00:00:00Z"}
STATUSES: list[dict[str, Any]] = [
    {},
    {"status": {}},
    {"status": {"conditions": []}},
    {"status": {"conditions": [{"type": "Created"}]}},
    {"status": {"conditions": [{"type": "Suspended"}]}},
    {"status": {"conditions": [{"type": "Succeeded"}], **ENDED}},
    {"status": ENDED},
]
METADATA: list[dict[str, Any]] = [
    {},
    {"labels": {}},
    {"labels": None},
    {"labels": {QUEUE_LABEL: "team-a"}},
    {"labels": {BY_HAND: "true", QUEUE_LABEL: "team-a"}},
    {"deletionTimestamp": "2026-01-01T00:00:00Z"},
]
POLICIES: list[dict[str, Any]] = [{}, {"suspend": True}, {"ttlSecondsAfterFinished": 5}]


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


@pytest.mark.parametrize("status", STATUSES, ids=str)
@pytest.mark.parametrize("metadata", METADATA, ids=str)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_each_shape_of_a_job_is_judged(
    status: dict[str, Any], metadata: dict[str, Any], policy: dict[str, Any]
) -> None:
    job = {"metadata": metadata, "spec": {"runPolicy": policy}, **status}
    conditions = status.get("status", {}).get("conditions") or [{}]
    is_suspended = conditions[-1].get("type") == "Suspended"
    labels = metadata.get("labels") or {}
    is_played = "deletionTimestamp" not in metadata and BY_HAND not in labels
    is_resumed = is_suspended and not policy.get("suspend")
    assert waits(job) is (is_played and ("status" not in job or is_resumed))
    assert is_queued(job) is (is_suspended and QUEUE_LABEL in labels and BY_HAND not in labels)
    ends = "ttlSecondsAfterFinished" in policy and "completionTime" in status.get("status", {})
    assert is_over(job, 2**31) is (ends and "deletionTimestamp" not in metadata)
