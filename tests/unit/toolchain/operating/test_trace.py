"""A trace of `make up`: every span has an end, none overlaps another on its line, and a failure leaves one, too."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.operating import trace
from toolchain.progress import Event
from toolchain.steps import SetupError, note, step

JOB, POD = "mnist", "mnist-master-0"
EVENTS: tuple[Event, ...] = (
    *({"is": kind, "phase": name} for kind in ("began", "ended") for name in ("engine", "pulumi up")),
    *(
        {"is": "object", "urn": name, "name": name, "operation": "create", "now": now}
        for name in ("Job mnist", "Namespace ml")
        for now in ("runs", "done", "failed")
    ),
    {"is": "object", "urn": "Job mnist", "text": "waiting"},
    *({"is": "pods", "job": JOB, "pods": [(POD, state)]} for state in ("Pending", "Running", "Succeeded")),
    *({"is": "condition", "job": JOB, "text": text} for text in ("Created", "Succeeded")),
    *({"is": "step", "job": JOB, "epoch": epoch, "done": 1, "total": 9, "loss": "1"} for epoch in (1, 2)),
    {"is": "result", "job": JOB, "epoch": 1, "accuracy": "0.9", "loss": "0.1"},
    *({"is": kind} for kind in ("quiet", "unheard-of")),
    {"is": "noted", "phase": "engine", "text": "starting"},
    {"is": "line", "text": "a line"},
    {"is": "epochs", "job": JOB, "epochs": 2},
)


class Clock:
    """A second later each time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def traced(*events: Event) -> list[dict[str, Any]]:
    """The complete events of a trace of these."""
    recorder = trace.Recorder(Clock())
    for event in events:
        recorder.take(event)
    found = trace.trace_events(recorder.finished(), recorder.began)
    json.dumps(found)
    return [each for each in found["traceEvents"] if each["ph"] == "X"]


@given(st.lists(st.sampled_from(EVENTS), max_size=60))
def test_whatever_comes_no_spans_of_a_line_overlap_and_all_have_an_end(events: list[Event]) -> None:
    found = traced(*events)
    assert all(each["dur"] > 0 and each["ts"] >= 0 for each in found)
    by_line: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for each in found:
        by_line.setdefault((each["pid"], each["tid"]), []).append(each)
    for line in by_line.values():
        line.sort(key=lambda each: each["ts"])
        assert all(first["ts"] + first["dur"] <= second["ts"] for first, second in pairwise(line))


def test_phases_that_run_side_by_side_have_lines_of_their_own() -> None:
    began = [{"is": "began", "phase": name} for name in ("engine", "packages")]
    found = traced(*began, {"is": "ended", "phase": "engine"}, {"is": "began", "phase": "images"})
    lines = {each["name"]: each["tid"] for each in found}
    assert lines["engine"] != lines["packages"]
    assert lines["images"] == lines["engine"], "a line that is free is used again"


def test_a_pod_goes_from_state_to_state_and_an_epoch_ends_with_its_result() -> None:
    pods = [{"is": "pods", "job": JOB, "pods": [(POD, state)]} for state in ("Pending", "Pending", "Running")]
    steps = [{"is": "step", "job": JOB, "epoch": 1, "done": done, "total": 9, "loss": "1"} for done in (1, 9)]
    result = {"is": "result", "job": JOB, "epoch": 1, "accuracy": "0.9", "loss": "0.1"}
    found = traced(*pods, *steps, result)
    assert [each["name"] for each in found] == ["Pending", "Running", "epoch 1"]
    assert found[-1]["args"] == {"accuracy": "0.9", "loss": "0.1"}


@pytest.mark.parametrize("fails", [False, True])
def test_the_phases_of_a_block_are_written_also_where_it_fails(tmp_path: Path, fails: bool) -> None:
    file = tmp_path / "trace.json"

    def work() -> None:
        with trace.recorded(file), step("container engine"):
            note("starting")
            if fails:
                raise SetupError("it does not start")

    if fails:
        with pytest.raises(SetupError, match="it does not start"):
            work()
    else:
        work()
    events = json.loads(file.read_text())["traceEvents"]
    assert "container engine" in [each["name"] for each in events if each["ph"] == "X"]
    with step("afterwards"):
        pass
    assert "afterwards" not in file.read_text()


def test_phases_of_several_threads_are_recorded(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"

    def work(name: str) -> None:
        with step(name):
            pass

    with trace.recorded(file):
        threads = [threading.Thread(target=work, args=(f"tool {number}",)) for number in range(5)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    events = json.loads(file.read_text())["traceEvents"]
    assert {each["name"] for each in events if each["ph"] == "X"} == {f"tool {number}" for number in range(5)}


def test_a_folder_that_is_not_there_is_told_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="there is no folder"), trace.recorded(tmp_path / "none" / "trace"):
        raise AssertionError("work was begun")


def test_a_trace_that_cannot_be_written_fails_no_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trace, "write_whole", full)
    with trace.recorded(tmp_path / "trace.json"):
        pass
    assert "no trace was written" in capsys.readouterr().err


def test_without_a_file_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(trace, "Recorder")
    with trace.recorded(None):
        pass
