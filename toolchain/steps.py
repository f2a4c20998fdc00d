"""Steps, child processes and errors of the set-up.

Standard library only: this runs on a bare machine before there is a virtual environment.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from infra import agreed
from toolchain.interruption import POLL_S
from toolchain.progress import Board, Event, Screen, Step

TAIL_LINES = 20


class SetupError(Exception):
    """What went wrong and what the user can do about it.

    Parameters:
        instead: a wrong word of the command, and the likely word if there is one.
    """

    def __init__(self, what: str, fix: str = "", *, instead: tuple[str, ...] = ()) -> None:
        super().__init__(what if not fix else f"{what}\n  fix: {fix}")
        self.what = what
        self.fix = fix
        self.instead = instead


class StoppedError(SetupError):
    """A command that was ended because another one failed."""


_board = Board()
_children: set[subprocess.Popen[bytes]] = set()
_stopping = threading.Event()


@contextmanager
def step(name: str) -> Iterator[Step]:
    """Show `name` as running, then its time; `phase_times` keeps the time."""
    running = Step(name, _board)
    _board.begin(running)
    try:
        yield running
    except BaseException:
        _board.end(running, " ✗")
        raise
    _board.end(running, " ✗" if running.has_failed else " ✓")


def say(text: str) -> None:
    """Print one line without damage to the live progress line."""
    _board.line(text)


def note(text: str) -> None:
    """Show what the latest step does now."""
    _board.note(text)


def tell(event: Event) -> None:
    """Send `event` to the live view, if there is one."""
    _board.send(event)


def expect(usual: Mapping[str, float]) -> None:
    """Let the live view show how long each phase took last time: phase -> seconds."""
    _board.usual = usual


def draw_on(screen: Screen | None) -> None:
    """Draw on `screen` from now on; if it is None, print lines again."""
    _board.show(screen)


def record_with(recorder: Callable[[Event], None] | None) -> None:
    """Send every event to `recorder` from now on; if it is None, stop the recording."""
    _board.recorder = recorder


def phase_times() -> list[tuple[str, float]]:
    """Name and seconds of every finished step, in the order they ended."""
    return list(_board.times)


def run(
    cmd: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    unset: Collection[str] = (agreed.BUILDKIT,),
    cwd: Path | None = None,
    timeout: float | None = None,
) -> None:
    """Run `cmd` to its end with both outputs appended to `log`.

    The command gets this process's environment without the names in `unset`, and then `env`. By default `unset` is
    DOCKER_BUILDKIT, which our own Dockerfiles do not need. Raises SetupError with the log's last lines if the command
    fails, cannot be started, or takes longer than `timeout` seconds.
    """
    words = [str(word) for word in cmd]
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    with _logged(" ".join(words), log, timeout) as (sink, started):
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**inherited, **(env or {})},
            cwd=cwd,
        )
        started.append(child)
        with stoppable(child):
            wait(child, timeout)


@contextmanager
def _logged(
    shown: str, log: Path, timeout: float | None = None
) -> Iterator[tuple[IO[bytes], list[subprocess.Popen[bytes]]]]:
    """`log`, opened to append a command's output, and a list for its processes. Raises SetupError as `run` does."""
    log.parent.mkdir(parents=True, exist_ok=True)
    started: list[subprocess.Popen[bytes]] = []
    with log.open("ab") as sink:
        sink.write(f"$ {shown}\n".encode())
        sink.flush()
        start = sink.tell()
        try:
            yield sink, started
        except OSError as error:
            what = f"cannot run {error.filename or shown}: {error.strerror}"
            fix = "install it; README.md says what a machine needs"
            raise SetupError(what, fix if isinstance(error, FileNotFoundError) else "") from error
        except subprocess.TimeoutExpired as error:
            what = f"`{shown}` took longer than {timeout:.0f} s\n{_tail(log, start)}"
            raise SetupError(what, f"see {log}") from error
    if _stopping.is_set():
        raise StoppedError(f"`{shown}` was stopped")
    if any(each.returncode for each in started):
        codes = ", ".join(str(each.returncode) for each in started)
        raise SetupError(f"`{shown}` failed ({codes})\n{_tail(log, start)}", f"see {log}")


def wait(child: subprocess.Popen[bytes], timeout: float | None = None) -> int:
    """Wait for `child`, and handle signals meanwhile. Raises subprocess.TimeoutExpired."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        try:
            return child.wait(min(POLL_S, max(0.0, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= end:
                raise


@contextmanager
def stoppable(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Wait for `child` in this block. `stop_children` ends the child, and so does an error that leaves the block."""
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
    """Run `source | target`, with their messages appended to `log` and `env` added to the environment.

    If `target` ends early, the pipe is closed, so that `source` ends too: otherwise it would hang in a write. Raises
    SetupError with the log's last lines if either fails.
    """
    shown = f"{' '.join(source)} | {' '.join(target)}"
    environment = {**os.environ, **(env or {})}
    with _logged(shown, log) as (sink, started):
        writing = subprocess.Popen(source, stdout=subprocess.PIPE, stderr=sink, env=environment)
        started.append(writing)
        with writing, stoppable(writing):
            assert writing.stdout
            with writing.stdout as stream:
                reading = subprocess.Popen(
                    target, stdin=stream, stdout=sink, stderr=subprocess.STDOUT, env=environment
                )
                started.append(reading)
                with reading, stoppable(reading):
                    wait(reading)
            wait(writing)


def stop_children() -> None:
    """End every command that `run` has started, and those that it starts later."""
    _stopping.set()
    for child in list(_children):
        _stop(child)


def allow_children() -> None:
    """Undo `stop_children`."""
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
