"""Which of a namespace's events are shown."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from toolchain.operating import live_objects, state, status
from toolchain.steps import SetupError

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def event(name: str, minutes: int, key: str = "lastTimestamp", **more: Any) -> dict[str, Any]:
    """As the API server tells it; seen last `minutes` before NOW."""
    when = (NOW - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
    times = {"series": {"lastObservedTime": when}} if key == "series" else {key: when}
    about = {"kind": "Pod", "name": name}
    return {"involvedObject": about, "reason": "Failed", "message": f"of\n{name}", **times, **more}


def shown(*events: dict[str, Any]) -> list[str]:
    return [each.split()[3] for each in live_objects.warnings(events, {"job"}, NOW)]


def test_the_last_ones_come_last() -> None:
    events = [event(f"job-{minutes}", minutes) for minutes in (4, 1, 3, 2)]
    assert shown(*events) == ["Pod/job-3", "Pod/job-2", "Pod/job-1"]


@pytest.mark.parametrize(
    ("name", "counts"), [("job", True), ("job-worker-0", True), ("jobs-worker-0", False)]
)
def test_those_of_an_object_and_of_what_is_named_after_it(name: str, counts: bool) -> None:
    assert bool(shown(event(name, 1))) == counts


@pytest.mark.parametrize(("minutes", "counts"), [(30, True), (31, False)])
def test_old_ones_say_nothing_of_today(minutes: int, counts: bool) -> None:
    assert bool(shown(event("job", minutes))) == counts


@pytest.mark.parametrize(
    ("key", "more"),
    [("lastTimestamp", {}), ("eventTime", {}), ("series", {"eventTime": "2025-01-01T00:00:00.000000Z"})],
)
def test_every_reporter_writes_the_time_elsewhere(key: str, more: dict[str, Any]) -> None:
    assert shown(event("job", 1, key, **more))


def test_one_without_a_time_is_left_out() -> None:
    assert shown(event("job", 1, lastTimestamp=None)) == []


def test_a_sentence_is_one_line() -> None:
    assert live_objects.warnings([event("job", 2)], {"job"}, NOW) == ["2 min ago: Pod/job Failed: of job"]


@pytest.mark.parametrize("allowed", [True, False])
def test_who_may_not_read_them_is_told_so(monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    recent = event("job", 0, lastTimestamp=datetime.now(UTC).isoformat())

    def kubectl(_variables: Any, _access: Any, *words: str) -> subprocess.CompletedProcess[str]:
        place = ("--namespace", "kubeflow")
        assert words == ("get", "events", *place, "--field-selector", "type=Warning", "--output", "json")
        found = json.dumps({"items": [recent]}) if allowed else ""
        return subprocess.CompletedProcess([], int(not allowed), found, "" if allowed else "Forbidden")

    monkeypatch.setattr(live_objects, "kubectl", kubectl)
    asked: Any = {}, state.Access("kubeconfig"), "kubeflow", {"job"}
    if allowed:
        assert live_objects.recent_warnings(*asked) == ["0 min ago: Pod/job Failed: of job"]
    else:
        with pytest.raises(SetupError, match="cannot list events: Forbidden"):
            live_objects.recent_warnings(*asked)
        (told,) = status._events(*asked)
        assert (told.what, told.health) == (status.Part.EVENT, status.Health.UNKNOWN)
