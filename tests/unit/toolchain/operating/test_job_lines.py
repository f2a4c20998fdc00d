"""What the program says of its jobs, as lines for the reader and events for a live view."""

from __future__ import annotations

from typing import Any

import pytest

from infra import agreed
from infra.run.waiting import Waiting
from tests.unit.infra.run.test_run import FakeApi, job, pod
from toolchain.operating.job_lines import EPOCH_LINE_S, JobLines


class Told:
    """What `JobLines` says and tells, with a clock of its own."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.clock = 0.0
        self.reader = JobLines(
            self.lines.append, lambda event: self.events.append(dict(event)), lambda: self.clock
        )

    def takes(self, *lines: str) -> bool:
        return {self.reader.take(line) for line in lines} == {True}


def epoch(number: int) -> list[str]:
    return [
        f"j: Train Epoch: {number} [0/1442 (0%)]\tloss=2.3",
        f"j: accuracy=0.{number}",
        f"j: loss=1.{number}",
    ]


def test_an_epoch_is_one_line() -> None:
    told = Told()
    assert told.takes("j: 12 epochs", *epoch(3))
    assert told.lines == ["j: epoch 3 of 12: accuracy=0.3 loss=1.3"]
    assert [event["is"] for event in told.events] == ["epochs", "step", "result"]


def test_short_epochs_share_a_line_and_the_last_is_never_lost() -> None:
    told = Told()
    for number in range(1, 9):
        told.takes(*epoch(number))
        told.clock += EPOCH_LINE_S / 4
    told.takes("j: Succeeded")
    assert told.lines == [*(f"j: epoch {n}: accuracy=0.{n} loss=1.{n}" for n in (1, 5, 8)), "j: Succeeded"]


def test_jobs_do_not_share_their_epochs() -> None:
    told = Told()
    told.takes(*epoch(1), *(line.replace("j:", "k:", 1) for line in epoch(2)))
    assert told.lines == ["j: epoch 1: accuracy=0.1 loss=1.1", "k: epoch 2: accuracy=0.2 loss=1.2"]


def test_a_job_that_reports_how_far_it_is_gets_a_line_for_each_tenth() -> None:
    told = Told()
    reports = [
        {"progressPercentage": part, "estimatedRemainingSeconds": 100 - part}
        for part in (*range(0, 99, 3), 100)
    ]
    assert told.takes(*(f"j: {agreed.progress({'status': {'trainerStatus': each}})}" for each in reports))
    assert len(told.events) == len(reports)
    assert told.events[1] == {"is": "progress", "job": "j", "percentage": 3, "text": "3 % done, 0:01:37 left"}
    assert [int(line.split()[1]) for line in told.lines] == [0, 12, 21, 30, 42, 51, 60, 72, 81, 90, 100]


@pytest.mark.parametrize("line", ["the API server is back after 3 s", "j: resumed at epoch 2, image 0", ""])
def test_other_lines_are_left_to_others(line: str) -> None:
    told = Told()
    assert not told.reader.take(line)
    assert (told.lines, told.events) == ([], [])


def test_what_the_program_shows_of_a_wait_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of the program's own wait: its pods, its condition, the log that it follows."""
    api = FakeApi([job("Created"), job("Created", "Running"), job("Succeeded")], [pod(phase="Running")])
    log = ["Train Epoch: 1 [0/10 (0%)]\tloss=2.0", "accuracy=0.5000", "loss=0.1000", "{metricName: accuracy"]
    api.log_stream = lambda *_: iter(f"{line}\n".encode() for line in log)  # type: ignore[method-assign]
    wait = Waiting(api, epochs=lambda: 1)
    wait.until_end()
    wait.follower.finish()
    told = Told()
    assert told.takes(*api.shown), api.shown
    assert {"is": "pods", "job": "j", "pods": [("j-master-0", "Running")]} in told.events
    assert {event["is"] for event in told.events} == {"pods", "condition", "epochs", "step", "result"}
    assert "j: epoch 1 of 1: accuracy=0.5000 loss=0.1000" in told.lines
