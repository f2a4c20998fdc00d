"""Progress on the screen: a short line when a step ends, and one line about the running steps.

Standard library only: this runs on a bare machine before there is a virtual environment.
Progress goes to stderr; stdout is for the output of commands such as `env` and `stack output`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

BEAT_S = 15.0
"""Without a terminal: seconds until the first line about running steps. Each later pause is twice as long."""

LONGEST_BEAT_S = 480.0
MOST_NAMED = 3
"""How many running steps a line names."""

Event = Mapping[str, Any]
"""An event for a live view. `is` names its kind."""


class Screen(Protocol):
    """A live view. `send` returns whether the view still runs."""

    def send(self, event: Event) -> bool: ...


@dataclass
class Step:
    """One running step; `said` is what it does now."""

    name: str
    board: Board
    started: float = field(default_factory=time.monotonic)
    said: str = ""
    result: str = ""
    has_failed: bool = False

    def note(self, text: str) -> None:
        """Show what the step does now."""
        self.said = text
        self.board.send({"is": "noted", "phase": self.name, "text": text})

    def conclude(self, text: str) -> None:
        """Add the result to the line that ends the step."""
        self.result = text

    def fail(self) -> None:
        """Show the step as failed, without an error, because something that it waited for failed."""
        self.has_failed = True

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


class Board:
    """The running steps. One thread draws them; they may run in other threads."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.running: list[Step] = []
        self.times: list[tuple[str, float]] = []
        self.ticker: threading.Thread | None = None
        self.screen: Screen | None = None
        self.recorder: Callable[[Event], None] | None = None
        self.live = is_terminal()
        self.usual: Mapping[str, float] = {}
        self.pause = BEAT_S
        self.next_beat = 0.0

    def line(self, text: str) -> None:
        """Print `text`; it stays on the screen."""
        with self.lock:
            if self.send({"is": "line", "text": text}):
                return
            erase = "\r\x1b[K" if self.live else ""
            sys.stderr.write(f"{erase}{text}\n")
            sys.stderr.flush()

    def send(self, event: Event) -> bool:
        """Send `event` to the live view; returns whether there is one."""
        with self.lock:
            if self.recorder:
                self.recorder(event)
            if self.screen and not self.screen.send(event):
                self.screen = None
            return self.screen is not None

    def note(self, text: str) -> None:
        """Show what the latest step does now."""
        with self.lock:
            if self.running:
                self.running[-1].note(text)

    def begin(self, step: Step) -> None:
        with self.lock:
            if not self.running:
                self.pause, self.next_beat = BEAT_S, step.started + BEAT_S
            self.running.append(step)
            self._send_begun(step)
            if self.ticker is None:
                self.ticker = threading.Thread(target=self._tick, daemon=True)
                self.ticker.start()

    def end(self, step: Step, outcome: str) -> None:
        with self.lock:
            self.running.remove(step)
            self.times.append((step.name, step.seconds))
            self.send({"is": "ended", "phase": step.name})
            result = f": {step.result}" if step.result else ""
            self.line(f"{outcome} {step.name}{result} ({step.seconds:.1f} s)")

    def show(self, screen: Screen | None) -> None:
        """Draw on `screen` from now on; it gets the running steps first. With None, print lines again."""
        with self.lock:
            if self.live and screen:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
            self.screen = screen
            for step in self.running:
                self._send_begun(step)

    def _send_begun(self, step: Step) -> None:
        told = {"phase": step.name, "since": time.time() - step.seconds, "text": step.said}
        self.send({"is": "began", **told, "usual": self.usual.get(step.name)})

    def _tick(self) -> None:
        while True:
            time.sleep(min(0.5, BEAT_S / 2))
            with self.lock:
                if not self.running:
                    self.ticker = None
                    return
                if self.screen is None:
                    self._draw()

    def _draw(self) -> None:
        if not self.live:
            if time.monotonic() >= self.next_beat:
                self.pause = min(2 * self.pause, LONGEST_BEAT_S)
                self.next_beat = time.monotonic() + self.pause
                self.line(beat(self.running))
            return
        parts = [f"{s.name}{': ' + s.said if s.said else ''} {s.seconds:.0f} s" for s in self.running]
        width = os.get_terminal_size(sys.stderr.fileno()).columns
        sys.stderr.write(f"\r\x1b[K{' … '.join(['', *parts])[: width - 1]}")
        sys.stderr.flush()


def is_terminal() -> bool:
    """Whether a user looks at a terminal that can redraw a line. A dumb terminal and a CI job do not count."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not os.environ.get("CI")


def beat(running: list[Step]) -> str:
    """One line about the running steps, the oldest first."""
    told = [f"{s.name}{': ' + s.said if s.said else ''} ({s.seconds:.0f} s)" for s in running[:MOST_NAMED]]
    more = [f"{len(running) - MOST_NAMED} more"] if len(running) > MOST_NAMED else []
    return f" … {', '.join([*told, *more])}"
