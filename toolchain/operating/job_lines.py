"""Reads what the Pulumi program prints about jobs, and makes short lines for the reader and events for a live view."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from toolchain.progress import Event

EPOCH_LINE_S = 5.0
"""Seconds between two lines about epochs of one job, because an epoch may take less than a second."""

_JOB = r"^(?P<job>[a-z0-9][-a-z0-9.]*): "
EPOCHS = re.compile(_JOB + r"(?P<epochs>\d+) epochs$")
STEP = re.compile(
    _JOB + r"Train Epoch: (?P<epoch>\d+) \[(?P<done>\d+)/(?P<total>\d+) \(\d+%\)\]\tloss=(?P<loss>\S+)$"
)
RESULT = re.compile(_JOB + r"(?P<name>accuracy|loss)=(?P<value>\S+)$")
CLOSING = re.compile(_JOB + r"\{metricName: ")
PROGRESS = re.compile(_JOB + r"(?P<text>(?P<percentage>\d+) % done.*)$")
PODS = re.compile(_JOB + r"pods: (?P<pods>.+)$")
CONDITION = re.compile(
    _JOB + r"(?P<condition>Pending|Created|Running|Restarting|Suspended|Succeeded|Failed)\b"
)


@dataclass
class _Job:
    """The state of a job, read from its lines.

    Parameters:
        tenth: how many tenths of its work were done in the last printed line.
        unsaid: the line about its last epoch, while it is held back.
    """

    epoch: int = 0
    epochs: int | None = None
    tenth: int | None = None
    accuracy: str = ""
    unsaid: str = ""
    said_at: float = float("-inf")


@dataclass
class JobLines:
    """Reads the lines of all jobs, one after the other.

    Parameters:
        say: gets each line for the reader.
        tell: gets each event.
    """

    say: Callable[[str], None]
    tell: Callable[[Event], None]
    now: Callable[[], float] = time.monotonic
    jobs: dict[str, _Job] = field(default_factory=dict)

    def take(self, line: str) -> bool:
        """Read one line; returns whether it is about the progress of a job. The caller prints other lines."""
        for pattern, read in (
            (EPOCHS, self._epochs),
            (STEP, self._step),
            (RESULT, self._result),
            (CLOSING, lambda found, line: None),
            (PROGRESS, self._progress),
            (PODS, self._pods),
            (CONDITION, self._condition),
        ):
            if found := pattern.match(line):
                read(found.groupdict(), line)
                return True
        return False

    def flush(self) -> None:
        """Print the lines that were held back."""
        for job in self.jobs.values():
            self._say_epoch(job, at_once=True)

    def _job(self, found: dict[str, str]) -> _Job:
        return self.jobs.setdefault(found["job"], _Job())

    def _epochs(self, found: dict[str, str], line: str) -> None:
        self._job(found).epochs = int(found["epochs"])
        self.tell({"is": "epochs", "job": found["job"], "epochs": int(found["epochs"])})

    def _step(self, found: dict[str, str], line: str) -> None:
        self._job(found).epoch = int(found["epoch"])
        numbers = {name: int(found[name]) for name in ("epoch", "done", "total")}
        self.tell({"is": "step", "job": found["job"], **numbers, "loss": found["loss"]})

    def _result(self, found: dict[str, str], line: str) -> None:
        job = self._job(found)
        if found["name"] == "accuracy":
            job.accuracy = found["value"]
            return
        of = f" of {job.epochs}" if job.epochs else ""
        result = f"accuracy={job.accuracy} loss={found['value']}"
        job.unsaid = f"{found['job']}: epoch {job.epoch}{of}: {result}" if job.epoch else line
        told: dict[str, Any] = {"is": "result", "job": found["job"], "epoch": job.epoch}
        self.tell({**told, "accuracy": job.accuracy, "loss": found["value"]})
        self._say_epoch(job)

    def _progress(self, found: dict[str, str], line: str) -> None:
        job, percentage = self._job(found), int(found["percentage"])
        self.tell({"is": "progress", "job": found["job"], "percentage": percentage, "text": found["text"]})
        if job.tenth != percentage // 10:
            job.tenth = percentage // 10
            self.say(line)

    def _pods(self, found: dict[str, str], line: str) -> None:
        self.tell({"is": "pods", "job": found["job"], "pods": list(pods(found["pods"]))})
        self.say(line)

    def _condition(self, found: dict[str, str], line: str) -> None:
        self._say_epoch(self._job(found), at_once=True)
        self.tell({"is": "condition", "job": found["job"], "text": line.partition(": ")[2]})
        self.say(line)

    def _say_epoch(self, job: _Job, at_once: bool = False) -> None:
        if job.unsaid and (at_once or self.now() - job.said_at >= EPOCH_LINE_S):
            self.say(job.unsaid)
            job.unsaid, job.said_at = "", self.now()


def pods(text: str) -> Iterator[tuple[str, str]]:
    """Name and state of each pod, from `a Running, b Pending (ContainerCreating)`."""
    for each in text.split(", "):
        name, _, state = each.partition(" ")
        yield name, state
