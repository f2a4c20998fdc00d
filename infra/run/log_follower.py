"""Shows the log of rank 0 while it is written."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubernetes.client.exceptions import ApiException

from infra import agreed
from infra.objects.retry import is_transient
from infra.run import job_status
from infra.run.job_api import LAST_LINES, JobApi, last_state
from infra.run.metrics import is_progress

TIMED = re.compile(r"(?:(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) )?(.*)", re.DOTALL)
SHOW_EVERY_S = 5.0
# A progress bar is one line, which is shown when it is finished. A slow bar is also shown at this interval, in seconds.
UNFINISHED_EVERY_S = 60.0
# How many seconds after the end of the job the end of its log may arrive.
LAG_S = 2
# How many lines of a log are searched for the exception that torchrun's report is about.
KEPT_LINES = 400
ROOT_CAUSE, FOOTER_LINES = "Root Cause (first observed failure):", 8
FAILED_RANK = re.compile(r"rank +: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)")
RANK_FAILED = "] failed (exitcode: "
TRACEBACK = "Traceback (most recent call last):"
OF_RANK = re.compile(r"\[(rank|default)\d+\]:")


@dataclass(frozen=True)
class LogLine:
    """A line of a container's log, or the present text of an unfinished line.

    Parameters:
        at: when the line began, in RFC 3339; empty for the kubelet's own messages.
        text: what a terminal shows of the line, which may have carriage returns.
    """

    at: str
    text: str
    is_whole: bool = True

    @property
    def time(self) -> datetime | None:
        """`at`, to a microsecond."""
        return datetime.fromisoformat(self.at) if self.at else None


def log_lines(chunks: Iterable[bytes]) -> Iterator[LogLine]:
    """The lines of a log that arrives in parts, and after each part the unfinished line of a progress bar."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from map(_line, whole)
        before, was_written, begun = rest.rpartition(b"\r")
        if was_written:
            line = _line(before, is_whole=False)
            yield line
            rest = f"{line.at} {line.text}\r".removeprefix(" ").encode() + begun
    if rest:
        yield _line(rest)


def _line(text: bytes, is_whole: bool = True) -> LogLine:
    found = TIMED.fullmatch(text.decode(errors="replace"))
    assert found, "both of its parts may be empty"
    at, said = found.groups(default="")
    return LogLine(at, last_state(said), is_whole)


def failure_lines(lines: Sequence[str]) -> list[str]:
    """The last LAST_LINES of `lines`.

    If they have a report of torchrun: the exception of the rank that failed first, and then the report's root cause.

    Sources: format_msg of ChildFailedError in torch/distributed/elastic/multiprocessing/errors, _poll of
    SubprocessContext in multiprocessing/api.py beside it, and _distributed_excepthook of torch 2.6, which puts [rank1]:
    before each line; torchrun's --tee puts [default1]: before each line.
    """
    root = max((place for place, line in enumerate(lines) if line.strip() == ROOT_CAUSE), default=None)
    found = FAILED_RANK.search("\n".join(lines[root:])) if root is not None else None
    if root is None or found is None:
        return [*lines[-LAST_LINES:]]
    footer, before = lines[root : root + FOOTER_LINES], lines[:root]
    ends = [place for place, line in enumerate(before) if RANK_FAILED in line]
    if ends:  # the exception is between the end of an earlier try and torchrun's own lines
        before = before[(ends[-2] + 1 if len(ends) > 1 else 0) : ends[-1]]
    exception = _exception(before, found["rank"], found["local"]) or before
    return [*exception[-(LAST_LINES - len(footer)) :], *footer]


def _exception(lines: Sequence[str], rank: str, local: str) -> list[str]:
    """The last exception of this rank; if the lines do not name a rank, the first exception."""
    own = [line for line in lines if line.startswith((f"[rank{rank}]:", f"[default{local}]:"))]
    begins = [place for place, line in enumerate(own) if TRACEBACK in line]
    if begins:
        return own[begins[-1] :]
    plain = [line for line in lines if not OF_RANK.match(line)]
    begin = next((place for place, line in enumerate(plain) if line == TRACEBACK), None)
    if begin is None:
        return []
    end = next(
        (place for place in range(begin + 1, len(plain)) if not plain[place].startswith(" ")), len(plain)
    )
    return plain[begin : end + 1]


class LogFollower:
    """Shows rank 0's log while it is written, lines about steps at most every SHOW_EVERY_S seconds.

    Parameters:
        epochs: returns the number of epochs of the whole run; None while it is unknown.
        told: gets each whole line.

    Attributes:
        pod: the name of the latest pod of rank 0.
        latest: the last followed lines. After the pod is deleted, nothing else of the log remains.
        last: the last whole line with a time since the container's last start.
        seen: how often the log has grown since the container's last start.
    """

    def __init__(
        self,
        api: JobApi,
        epochs: Callable[[], int | None] = lambda: None,
        told: Callable[[LogLine], None] = lambda _: None,
    ) -> None:
        self.api, self.pod, self.epochs, self.told = api, "", epochs, told
        # Set if progress is drawn. In this case, the first line of each epoch is shown.
        self.drawn_every = os.environ.get(agreed.DRAWN_EVERY_S)
        self.last_step = ("", float("-inf"))
        self.unfinished_since: float | None = None
        self.told_epochs: int | None = None
        self.thread: threading.Thread | None = None
        self.broken = False
        self.latest: deque[str] = deque(maxlen=KEPT_LINES)
        self.start: tuple[str, int] | None = None
        self.last: LogLine | None = None
        self.seen = 0

    def find_pod(self, job: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        """Look for rank 0 among `pods` of `job`, in any phase."""
        rank0 = self.api.leader(job)
        own = [each["metadata"] for each in pods if each["metadata"]["name"].startswith(rank0)]
        latest = max(own, key=lambda each: str(each.get("creationTimestamp")), default=None)
        self.pod = latest["name"] if latest else self.pod or rank0

    def ensure_started(self, pods: list[dict[str, Any]]) -> None:
        """Follow the log of each start of the container. If the log ends before the container, continue it."""
        for pod in pods:
            if pod["metadata"]["name"] != self.pod or pod.get("status", {}).get("phase") != "Running":
                continue
            start = (pod["metadata"]["uid"], job_status.restarts([pod]))
            if start != self.start:
                self.start, self.last, self.seen = start, None, 0
            elif self.thread is not None and (self.thread.is_alive() or not (self.broken or self._runs(pod))):
                continue
            self.broken = False
            self.thread = threading.Thread(target=self._follow, daemon=True)
            self.thread.start()

    def _runs(self, pod: dict[str, Any]) -> bool:
        """Whether the container still runs: the kubelet may end a log when it rotates it."""
        states = {each["name"]: each.get("state") or {} for each in job_status.containers(pod["status"])}
        return "running" in states.get(self.api.kind.container, {})

    def _follow(self) -> None:
        known = self.last.time if self.last else None
        try:
            since = self.last.at if self.last else ""
            for line in log_lines(self.api.log_stream(self.pod, self.api.kind.container, since)):
                if known and line.time and line.time <= known:
                    continue
                self.seen += 1
                self._take(line)
        except Exception as error:
            self.broken = True
            if not is_transient(error) and not isinstance(error, ApiException):
                raise

    def _take(self, line: LogLine) -> None:
        now = time.monotonic()
        if line.is_whole:
            self.last, self.unfinished_since = line if line.at else self.last, None
            self.latest.append(line.text)
            self.told(line)
            self._show(line.text)
        elif self.unfinished_since is None:
            self.unfinished_since = now
        elif line.text and now - self.unfinished_since >= UNFINISHED_EVERY_S:
            self.unfinished_since = now
            self._show(line.text)

    def _show(self, line: str) -> None:
        if is_progress(line):
            if not self._is_due(line):
                return
            if self.told_epochs is None and (count := self.epochs()):
                self.told_epochs = count
                self.api.show(f"{self.api.name}: {count} epochs")
        self.api.show(f"{self.api.name}: {line}")

    def _is_due(self, line: str) -> bool:
        """Whether enough time has passed since a line about a step was last shown."""
        epoch, now = line.partition("[")[0], time.monotonic()
        shown_epoch, shown = self.last_step
        begins = self.drawn_every is not None and epoch != shown_epoch
        if not begins and now - shown < float(self.drawn_every or SHOW_EVERY_S):
            return False
        self.last_step = (epoch, now)
        return True

    def wait(self) -> None:
        """Wait for the end of the log, which arrives after the end of the job."""
        if self.thread:
            self.thread.join(timeout=LAG_S)

    def finish(self) -> list[str]:
        """The last lines of the pod's log; empty if it no longer exists."""
        self.wait()
        return self.api.last_lines(self.pod, self.api.kind.container, lines=1000)
