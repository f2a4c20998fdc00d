"""`make up TRACE=FILE`: writes how long each step takes, as a file for a browser's trace viewer.

The format is the Trace Event Format, the JSON that Perfetto and Chrome's own viewer read: an object with
`traceEvents`. Each complete event (`ph` X) has a begin `ts` and a length `dur` in microseconds, on the line `tid` of
the group `pid`. `M` events name groups and lines.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.atomic_file import write_whole
from toolchain.progress import Event
from toolchain.steps import SetupError, record_with, say

PHASES, OBJECTS, JOBS = "phases of make up", "Pulumi's objects", "jobs and pods"
GROUPS = (PHASES, OBJECTS, JOBS)
MICROSECONDS = 1e6


@dataclass(frozen=True)
class Span:
    """Something that lasted from `begin` to `end`, in seconds of one clock.

    `line`: the name of the span's own line in its group; empty if it shares a line with spans that do not overlap.
    """

    group: str
    line: str
    name: str
    begin: float
    end: float
    details: dict[str, Any] = field(default_factory=dict)


class Recorder:
    """Takes every event that a live view would draw, and records the time of each.

    Parameters:
        now: the clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.began = now()
        self.spans: list[Span] = []
        # (group, key in the group) -> line, name, begin.
        self.open: dict[tuple[str, str], tuple[str, str, float]] = {}

    def take(self, event: Event) -> None:
        """Read one event; kinds without a duration are skipped."""
        reader = getattr(self, f"_{event['is']}", None)
        if reader:
            reader(event)

    def finished(self) -> list[Span]:
        """All spans; an open span ends now."""
        for group, key in list(self.open):
            self._end(group, key)
        return sorted(self.spans, key=lambda span: (GROUPS.index(span.group), span.begin))

    def _began(self, event: Event) -> None:
        # Running phases are sent again when a view starts later.
        if (PHASES, event["phase"]) not in self.open:
            self._begin(PHASES, event["phase"], "", event["phase"])

    def _ended(self, event: Event) -> None:
        self._end(PHASES, event["phase"])

    def _object(self, event: Event) -> None:
        if event.get("now") == "runs":
            self._begin(OBJECTS, event["urn"], "", f"{event['operation']} {event['name']}")
        elif "now" in event:
            self._end(OBJECTS, event["urn"], result=event["now"])

    def _condition(self, event: Event) -> None:
        self._turn(event["job"], event["text"])

    def _pods(self, event: Event) -> None:
        for name, state in event["pods"]:
            self._turn(f"pod {name}", state)

    def _step(self, event: Event) -> None:
        line = f"{event['job']}, epochs"
        if (JOBS, line) not in self.open:
            self._begin(JOBS, line, line, f"epoch {event['epoch']}")

    def _result(self, event: Event) -> None:
        self._end(JOBS, f"{event['job']}, epochs", accuracy=event["accuracy"], loss=event["loss"])

    def _turn(self, line: str, state: str) -> None:
        """End the span of another state on this line, and begin the span of `state`."""
        before = self.open.get((JOBS, line))
        if before is None or before[1] != state:
            self._end(JOBS, line)
            self._begin(JOBS, line, line, state)

    def _begin(self, group: str, key: str, line: str, name: str) -> None:
        self.open[group, key] = (line, name, self.now())

    def _end(self, group: str, key: str, **details: Any) -> None:
        if begun := self.open.pop((group, key), None):
            line, name, begin = begun
            self.spans.append(Span(group, line, name, begin, self.now(), details))


def trace_events(spans: list[Span], origin: float) -> dict[str, Any]:
    """The spans in the Trace Event Format, in microseconds since `origin`."""
    events: list[dict[str, Any]] = []
    for pid, group in enumerate(GROUPS, start=1):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": group}})
        for tid, (line, held) in enumerate(_lines([span for span in spans if span.group == group]), start=1):
            if line:
                events.append(
                    {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": line}}
                )
            events += [_complete(span, pid, tid, origin) for span in held]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _complete(span: Span, pid: int, tid: int, origin: float) -> dict[str, Any]:
    times = {"ts": (span.begin - origin) * MICROSECONDS, "dur": (span.end - span.begin) * MICROSECONDS}
    return {"ph": "X", "name": span.name, "pid": pid, "tid": tid, **times, "args": span.details}


def _lines(spans: list[Span]) -> Iterator[tuple[str, list[Span]]]:
    """The spans of a group by line. A viewer draws spans of one line wrongly if they overlap without nesting."""
    for name in dict.fromkeys(span.line for span in spans if span.line):
        yield name, [span for span in spans if span.line == name]
    shared: list[list[Span]] = []
    for span in sorted((span for span in spans if not span.line), key=lambda span: span.begin):
        free = next((line for line in shared if line[-1].end <= span.begin), None)
        if free is None:
            shared.append(free := [])
        free.append(span)
    yield from (("", line) for line in shared)


@contextmanager
def recorded(file: Path | None) -> Iterator[None]:
    """Write into `file` how long each step of the block takes, also if the block fails. Raises SetupError.

    If `file` is None, nothing is written.
    """
    if file is None:
        yield
        return
    if not file.parent.is_dir():
        raise SetupError(f"TRACE={file}: there is no folder {file.parent}", f"mkdir -p {file.parent}")
    recorder = Recorder()
    record_with(recorder.take)
    try:
        yield
    finally:
        record_with(None)
        try:
            write_whole(file, json.dumps(trace_events(recorder.finished(), recorder.began)))
            say(f"trace: {file}, for Perfetto or chrome://tracing")
        except OSError as error:  # this does not change the result of the block
            say(f"no trace was written: {error}")
