"""Progress, child processes and errors for every long step of the set-up.

Standard library only: this runs on a bare machine before any virtual environment exists.
Progress goes to stderr, so that `env` and `stack output` keep stdout for themselves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from toolchain.interruption import POLL_S

BEAT_S = 15.0
"""Seconds between two progress lines where no terminal shows a live one."""

TAIL_LINES = 20


class SetupError(Exception):
    """What went wrong and what the user can do about it."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what if not fix else f"{what}\n  fix: {fix}")
        self.what = what
        self.fix = fix


class StoppedError(SetupError):
    """A command that was ended because something else has failed."""


@dataclass
class Step:
    """One running step; `note` says what it is doing at the moment."""

    name: str
    started: float = field(default_factory=time.monotonic)
    said: str = ""

    def note(self, text: str) -> None:
        self.said = text
        _board.say(self, f"{self.name}: {text}")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


class _Board:
    """The steps running now, drawn by one thread, whatever thread they run in."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.running: list[Step] = []
        self.times: list[tuple[str, float]] = []
        self.ticker: threading.Thread | None = None
        self.live = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def line(self, text: str) -> None:
        with self.lock:
            erase = "\r\x1b[K" if self.live else ""
            sys.stderr.write(f"{erase}{text}\n")
            sys.stderr.flush()

    def say(self, step: Step, text: str) -> None:
        if not self.live:
            self.line(f"   {text} ({step.seconds:.0f} s)")

    def begin(self, step: Step) -> None:
        with self.lock:
            self.running.append(step)
            if self.ticker is None:
                self.ticker = threading.Thread(target=self._tick, daemon=True)
                self.ticker.start()

    def end(self, step: Step, outcome: str) -> None:
        with self.lock:
            self.running.remove(step)
            self.times.append((step.name, step.seconds))
            self.line(f"{outcome} {step.name} ({step.seconds:.1f} s)")

    def _tick(self) -> None:
        while True:
            time.sleep(0.5 if self.live else BEAT_S)
            with self.lock:
                if not self.running:
                    self.ticker = None
                    return
                self._draw()

    def _draw(self) -> None:
        if not self.live:
            for step in self.running:
                if step.seconds >= BEAT_S / 2:
                    detail = f": {step.said}" if step.said else ""
                    self.line(f" … {step.name}{detail} ({step.seconds:.0f} s)")
            return
        parts = [f"{s.name}{': ' + s.said if s.said else ''} {s.seconds:.0f} s" for s in self.running]
        width = os.get_terminal_size(sys.stderr.fileno()).columns
        sys.stderr.write(f"\r\x1b[K{' … '.join(['', *parts])[: width - 1]}")
        sys.stderr.flush()


_board = _Board()
_children: set[subprocess.Popen[bytes]] = set()
_stopping = threading.Event()


@contextmanager
def step(name: str) -> Iterator[Step]:
    """Show `name` as running, then how long it took; `phase_times` keeps the figure."""
    running = Step(name)
    _board.begin(running)
    try:
        yield running
    except BaseException:
        _board.end(running, " ✗")
        raise
    _board.end(running, " ✓")


def say(text: str) -> None:
    """Print one line without tearing the live progress line."""
    _board.line(text)


def phase_times() -> list[tuple[str, float]]:
    """Name and seconds of every finished step, in the order they ended."""
    return list(_board.times)


def run(
    cmd: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    unset: Collection[str] = (),
    cwd: Path | None = None,
    timeout: float | None = None,
    stdin: bytes | None = None,
) -> None:
    """Run `cmd` to its end with both outputs appended to `log`.

    `env` is added to the process's own environment, which goes without the names in `unset`. Raises SetupError
    with the log's last lines when the command fails, cannot be started, or takes longer than `timeout` seconds.
    """
    words = [str(word) for word in cmd]
    shown = " ".join(words)
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        sink.write(f"$ {shown}\n".encode())
        sink.flush()
        start = sink.tell()
        try:
            child = subprocess.Popen(
                words,
                stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**inherited, **(env or {})},
                cwd=cwd,
            )
        except OSError as error:
            raise SetupError(
                f"cannot run {words[0]}: {error.strerror}", "install it, or see the README"
            ) from error
        try:
            with stoppable(child):
                wait(child, stdin, timeout)
        except subprocess.TimeoutExpired as error:
            raise SetupError(
                f"`{shown}` took longer than {timeout:.0f} s\n{_tail(log, start)}", f"see {log}"
            ) from error
    if _stopping.is_set():
        raise StoppedError(f"`{shown}` was stopped")
    if child.returncode:
        raise SetupError(f"`{shown}` failed ({child.returncode})\n{_tail(log, start)}", f"see {log}")


def wait(child: subprocess.Popen[bytes], stdin: bytes | None = None, timeout: float | None = None) -> int:
    """Give `child` its input and wait for it; signals are handled meanwhile. Raises subprocess.TimeoutExpired."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = POLL_S if end is None else min(POLL_S, max(0.0, end - time.monotonic()))
        try:
            child.communicate(stdin, timeout=left) if child.stdin else child.wait(left)
            return child.returncode
        except subprocess.TimeoutExpired:
            stdin = None  # it is on its way
            if end is not None and time.monotonic() >= end:
                raise


@contextmanager
def stoppable(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Wait for `child` inside: `stop_children` ends it, and so does an error that leaves the block."""
    _children.add(child)
    try:
        if _stopping.is_set():
            _stop(child)
        yield
    except BaseException:
        _stop(child)
        raise
    finally:
        _children.discard(child)


def pipe(
    source: Sequence[str], target: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
) -> None:
    """`source | target`, with what both say appended to `log` and `env` added to the environment.

    When `target` ends early, the pipe is closed, so that `source` ends too: it would wait for ever to write. Raises
    SetupError with the log's last lines when either fails.
    """
    shown = f"{' '.join(source)} | {' '.join(target)}"
    environment = {**os.environ, **(env or {})}
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        sink.write(f"$ {shown}\n".encode())
        sink.flush()
        start = sink.tell()
        try:
            writing = subprocess.Popen(source, stdout=subprocess.PIPE, stderr=sink, env=environment)
            with writing, stoppable(writing):
                assert writing.stdout
                with writing.stdout as stream:
                    reading = subprocess.Popen(
                        target, stdin=stream, stdout=sink, stderr=subprocess.STDOUT, env=environment
                    )
                    with reading, stoppable(reading):
                        wait(reading)
                wait(writing)
        except OSError as error:
            raise SetupError(f"cannot run `{shown}`: {error.strerror}", "see the README") from error
    if _stopping.is_set():
        raise StoppedError(f"`{shown}` was stopped")
    if reading.returncode or writing.returncode:
        codes = f"{writing.returncode}, {reading.returncode}"
        raise SetupError(f"`{shown}` failed ({codes})\n{_tail(log, start)}", f"see {log}")


def stop_children() -> None:
    """End every command that `run` has started, and each that it is asked for later."""
    _stopping.set()
    for child in list(_children):
        _stop(child)


def allow_children() -> None:
    """Take `stop_children` back."""
    _stopping.clear()


def kill_children() -> None:
    """Kill every running command of `run`; safe in a signal handler."""
    for child in list(_children):
        child.kill()


def _stop(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _tail(log: Path, start: int) -> str:
    lines = log.read_bytes()[start:].decode(errors="replace").splitlines()[-TAIL_LINES:]
    return "\n".join(f"  | {line}" for line in lines)
