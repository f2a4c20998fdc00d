"""The timeline of a job and its pods, from what the API server tells while it is waited for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from infra.run.record import Record
from infra.run.timeline import Timeline
from tests.unit.infra.run.test_run import FakeApi, job, pod


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def conditions(*held: tuple[str, str, int]) -> dict[str, Any]:
    told = [{"type": name, "status": status, "lastTransitionTime": at(when)} for name, status, when in held]
    return {"metadata": {"name": "j", "uid": "u"}, "spec": job()["spec"], "status": {"conditions": told}}


def container(**states: Any) -> dict[str, Any]:
    status = {"containerStatuses": [{"name": "pytorch", "restartCount": 1, **states}]}
    return {"metadata": {"name": "j-master-0", "uid": "p", "creationTimestamp": at(2)}, "status": status}


def end(begun: int, ended: int, code: int, reason: str) -> dict[str, Any]:
    return {
        "terminated": {"startedAt": at(begun), "finishedAt": at(ended), "exitCode": code, "reason": reason}
    }


def test_each_tenth_that_a_trainjob_reports_is_told_once() -> None:
    seen = Timeline()
    for when, percentage in enumerate((0, 4, 12, 15, 31, 100, 100)):
        told = conditions()
        told["status"]["trainerStatus"] = {"progressPercentage": percentage, "lastUpdatedTime": at(when)}
        seen.see(told, [])
    seen.see(conditions(), [])
    tenths = [(0, "0"), (2, "10"), (4, "30"), (5, "100")]
    assert seen.entries() == [(at(when), "job j", f"{tenth} % done") for when, tenth in tenths]


def test_two_restarts_are_told_though_a_container_keeps_its_last_end_alone() -> None:
    seen = Timeline()
    first, second = end(3, 5, 137, "OOMKilled"), end(6, 8, 1, "Error")
    for states in (
        {"state": {"running": {"startedAt": at(3)}}},
        {"state": {"running": {"startedAt": at(6)}}, "lastState": first},
        {"state": {"running": {"startedAt": at(9)}}, "lastState": second},
        {"state": end(9, 20, 0, "Completed"), "lastState": second},
    ):
        seen.see(conditions(("Created", "True", 1), ("Running", "True", 4)), [container(**states)])
    seen.see(conditions(("Running", "False", 21), ("Succeeded", "True", 21)), [])
    where = "pod j-master-0, container pytorch"
    assert seen.entries() == [
        (at(1), "job j", "Created"),
        (at(2), "pod j-master-0", "created"),
        (at(3), where, "started"),
        (at(4), "job j", "Running"),
        (at(5), where, "ended: OOMKilled, exit code 137"),
        (at(6), where, "started"),
        (at(8), where, "ended: Error, exit code 1"),
        (at(9), where, "started"),
        (at(20), where, "ended: Completed, exit code 0"),
        (at(21), "job j", "Succeeded"),
    ]


def test_a_pod_that_was_evicted_is_told_beside_the_one_in_its_place() -> None:
    seen = Timeline()
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(2)}
    gone = pod(conditions=[scheduled])
    # Of pods the client writes times in this way, of other objects as the server does.
    gone["metadata"] |= {"creationTimestamp": at(1).replace("Z", "+00:00"), "deletionTimestamp": at(4)}
    fresh = pod()
    fresh["metadata"] |= {"creationTimestamp": at(6)}
    for each in (gone, fresh):
        seen.see(conditions(), [each])
    assert [(when, what) for when, _, what in seen.entries()] == [
        *((at(1), "created"), (at(2), "scheduled"), (at(4), "deleted"), (at(6), "created"))
    ]


def test_a_pod_that_failed_as_a_whole_says_why_when_its_container_ended() -> None:
    killed = container(state=end(3, 5, 137, "Error"))
    killed["status"] |= {"phase": "Failed", "reason": "Evicted", "message": "The node was low. "}
    seen = Timeline()
    seen.see(conditions(), [killed])
    assert (at(5), "pod j-master-0", "failed: Evicted: The node was low.") in seen.entries()


def test_a_pod_that_its_node_refused_failed_when_it_came() -> None:
    refused = pod(phase="Failed", reason="OutOfcpu", message="Node didn't have enough", startTime=at(4))
    seen = Timeline()
    seen.see(conditions(), [refused])
    assert seen.entries() == [(at(4), "pod j-master-0", "failed: OutOfcpu: Node didn't have enough")]


@pytest.mark.parametrize("before", [None, "", "{", "[1]", '[["2026-01-01T00:00:00Z", "job j", "Created"]]'])
def test_it_is_kept_beside_the_run_with_what_was_there_and_is_never_newer(
    tmp_path: Path, before: str | None
) -> None:
    model = tmp_path / "mnist_cnn.pt"
    model.write_bytes(b"model")
    os.utime(model, (1000, 1000))
    if before is not None:
        (tmp_path / agreed.TIMELINE).write_text(before)
    seen = Record(FakeApi([]), tmp_path)
    seen.see(conditions(("Succeeded", "True", 9)), [])
    found = json.loads((tmp_path / agreed.TIMELINE).read_text())
    assert found[-1] == [at(9), "job j", "Succeeded"]
    assert len(found) == (2 if before and "Created" in before else 1)
    assert (tmp_path / agreed.TIMELINE).stat().st_mtime == 1000
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "mnist_cnn.pt",
        agreed.RECORD,
        agreed.TIMELINE,
    ]
