"""Pulumi's output: all of it in a log file, a summary on the screen. With `-v`, all of it is on the screen too."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from infra import agreed
from toolchain.operating import pulumi_events, stack_locks
from toolchain.paths import LOGS, ROOT
from toolchain.steps import note, say, tell

VERBOSE = "TRAINSTACK_VERBOSE"
"""If this variable is set, Pulumi's own output is shown."""

HIDDEN = {"PULUMI_DEBUG_COMMANDS": "true"}
"""Without this variable, Pulumi hides the option for the event log."""
DRAWN = {agreed.DRAWN_EVERY_S: "0.5"}
"""With this variable, the Pulumi program reports steps more often."""

LAST_LINES_S = 2.0
"""Seconds to wait for the last output of a command `pulumi` that has ended."""

MOST_KEPT = 40
PLANS = "preview"
_reader = pulumi_events.Reader(say, tell, note)
_begun: set[Path] = set()
_failed: dict[str, str] = {}


def is_verbose() -> bool:
    """Whether the user wants to see Pulumi's own output."""
    return bool(os.environ.get(VERBOSE))


def be_verbose() -> None:
    """Show Pulumi's own output from now on."""
    os.environ[VERBOSE] = "yes"


def fix() -> str:
    """The fix for the errors of the last command `pulumi`; empty if the errors named a fix."""
    return "" if _reader.has_fix else pulumi_events.FIX


def expect_gone(titles: Iterable[str]) -> None:
    """Do not report objects of these titles as drift if they are gone: the Pulumi program says why."""
    _reader.expected = {*titles}


def failed_jobs() -> dict[str, str]:
    """The answer of pulumi_events.failed_jobs for the last command `pulumi`."""
    return dict(_failed)


class Output:
    """The output of one command `pulumi`.

    Parameters:
        shown: whether all of it is shown on the screen. Otherwise only the summary is shown, and the last lines if
            pulumi failed without a message.
    """

    def __init__(self, log: BinaryIO, shown: bool) -> None:
        self.log, self.shown = log, shown
        self.rest = b""
        self.kept: deque[str] = deque(maxlen=MOST_KEPT)
        self.summary: list[str] = []
        self.in_summary = False

    def read(self, pipe: int) -> None:
        """Read `pipe` to its end."""
        while some := os.read(pipe, 1 << 16):
            self.log.write(some)
            self.log.flush()
            if self.shown:
                sys.stdout.buffer.write(some)
                sys.stdout.buffer.flush()
            *lines, self.rest = (self.rest + some).split(b"\n")
            for line in lines:
                self._line(line.decode(errors="replace"))

    def _line(self, line: str) -> None:
        self.kept.append(line)
        self.in_summary = (self.in_summary or line == "Resources:") and not line.startswith("Duration:")
        if self.in_summary and line:
            self.summary.append(line)

    def last_lines(self) -> list[str]:
        """The last lines, beginning with the first error among them."""
        lines = [*self.kept, *([self.rest.decode(errors="replace")] if self.rest else [])]
        errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
        return lines[errors[0] :] if errors else lines


class Watching:
    """Shows what one command `pulumi` does: its output, or else what its event log says."""

    def __init__(self, output: Output, events: Path, follows: bool) -> None:
        self.output, self.events = output, events
        self.over = threading.Event()
        self.readers: list[threading.Thread] = []
        if follows:
            self._start(self._follow)

    def read(self, pipe: int) -> None:
        """Read its output from `pipe` in the background."""
        # A thread reads: a plugin that outlives pulumi keeps the pipe open, and must not block us.
        self._start(lambda: self.output.read(pipe))

    def ended(self, status: int) -> str:
        """Pulumi has ended with `status`: print the rest; returns the last lines, beginning with the first error.

        It does not print that the stack is locked: the caller waits for the lock, and says so.
        """
        self.over.set()
        for reader in self.readers:
            reader.join(LAST_LINES_S)
        _failed.clear()
        _failed.update(pulumi_events.failed_jobs(pulumi_events.follow(self.events, self.over)))
        last = self.output.last_lines()
        told = "\n".join(last)
        if self.output.shown:
            _reader.has_fix = "fix: " in told
            return told
        for line in self.output.summary:
            say(line)
        if status and not _reader.has_error and not stack_locks.is_refusal(told):
            for line in last:
                say(line)
        return told

    def _start(self, work: Callable[[], None]) -> None:
        reader = threading.Thread(target=work, daemon=True)
        self.readers.append(reader)
        reader.start()

    def _follow(self) -> None:
        _reader.begin()
        for event in pulumi_events.follow(self.events, self.over):
            _reader.take(event)
        _reader.end()


@contextmanager
def watching(arguments: Sequence[str]) -> Iterator[tuple[Watching, list[str], dict[str, str]]]:
    """A watcher for `pulumi <arguments>`, and the options and variables that the command needs for the watcher."""
    shown = is_verbose() or arguments[0] == PLANS
    with tempfile.TemporaryDirectory(prefix="trainstack-events-") as folder, _log(arguments, shown) as log:
        events = Path(folder) / "events"
        events.touch(0o600)
        watch = Watching(Output(log, shown), events, follows=not shown)
        try:
            yield watch, ["--event-log", str(events)], HIDDEN | ({} if shown else DRAWN)
        finally:
            watch.over.set()


@contextmanager
def _log(arguments: Sequence[str], shown: bool) -> Iterator[BinaryIO]:
    """The log file of this verb and stack. Each `make` empties it first, and prints its name once."""
    stack = arguments[arguments.index("--stack") + 1] if "--stack" in arguments else "none"
    file = LOGS / f"pulumi-{arguments[0]}-{stack}.log"
    LOGS.mkdir(parents=True, exist_ok=True)
    if file not in _begun and not shown:
        say(f"   Pulumi's own output is in {file.relative_to(ROOT)}; with -v it is shown here, too")
    with file.open("ab" if file in _begun else "wb") as log:
        _begun.add(file)
        yield log
