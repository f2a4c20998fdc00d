"""The live view on a real terminal (a pty): whatever happens, the terminal is in order afterwards."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
import time

import pytest
from rich.text import Text

from infra.screen.__main__ import Foot
from tests.pictures.terminal import read
from tests.unit.toolchain.conftest import PATIENCE_S, ROOT
from tests.unit.toolchain.operating.screen import Screen

PROGRAM = """
import os, signal, sys, time
from toolchain.operating import live_view
from toolchain.steps import say, step, tell
from toolchain.tools import venv
venv.is_complete = lambda: True
venv.command = lambda module: [sys.executable, "-m", module]
try:
    with live_view.shown() as view:
        with step("building") as building:
            building.note("compiling")
            tell({"is": "step", "job": "j", "epoch": 1, "done": 5, "total": 10, "loss": "1"})
            say("first line")
            print("ready", flush=True)
            sys.stdin.readline()
            EVENT
            say("last line")
except (KeyboardInterrupt, RuntimeError):
    print("over", file=sys.stderr)
"""
EVENTS = {
    "its end": "pass",
    "an exception": "raise RuntimeError",
    "Ctrl-C": "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
    "the view is killed": "view.child.kill(); view.child.wait()",
    "the view hangs": "view.child.send_signal(signal.SIGSTOP); [say('x' * 4096) for _ in range(64)]",
}


def size(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


@pytest.mark.parametrize("what", EVENTS)
def test_the_terminal_is_in_order_after(what: str) -> None:
    ours, theirs = pty.openpty()
    size(theirs, 80)
    variables = {
        name: value for name, value in os.environ.items() if name not in ("CI", "TRAINSTACK_VERBOSE")
    }
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace("EVENT", EVENTS[what])],
        cwd=ROOT,
        env={**variables, "TERM": "xterm-256color"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    assert child.stdin
    assert child.stdout
    assert child.stdout.readline() == b"ready\n"
    output, said = read(ours, time.monotonic() + PATIENCE_S), ""
    while "compiling" not in said:
        said += next(output)
    size(ours, 60)
    child.stdin.write(b"go on\n")
    child.stdin.close()
    said += "".join(output)
    os.close(ours)
    assert child.wait() == 0
    screen = Screen(80)
    screen.write(said)
    assert screen.cursor_shown
    assert "first line" in screen.rows
    assert ("last line" in screen.rows) is (what not in ("an exception", "Ctrl-C")), screen.rows
    assert ("over" in screen.rows) is (what in ("an exception", "Ctrl-C"))
    if "the view" not in what:
        assert not [row for row in screen.rows if "compiling" in row or "epoch" in row], "the rows are gone"


def test_rows_that_a_narrower_terminal_has_broken_are_taken_away() -> None:
    stream, screen = io.StringIO(), Screen(80)
    foot = Foot(stream)

    def shown() -> list[str]:
        screen.write(stream.getvalue())
        stream.seek(0)
        stream.truncate()
        return "\n".join(screen.rows).rstrip("\n").split("\n")

    foot.draw(["kept"], [Text("x" * 70), Text("y" * 50)], 80, 24)
    assert shown() == ["kept", "x" * 70, "y" * 50]
    screen.narrow(30)
    foot.draw([], [Text("z" * 20)], 30, 24)
    assert shown() == ["kept", "z" * 20]
    foot.end(30)
    assert shown() == ["kept"]
    assert screen.cursor_shown


@pytest.mark.parametrize("lines", [[], ["kept"]], ids=["rows alone", "lines above them"])
def test_rows_that_fill_the_screen_leave_nothing_in_the_history(lines: list[str]) -> None:
    stream, screen = io.StringIO(), Screen(80)
    foot = Foot(stream)
    for number in range(3):
        foot.draw(lines if number == 2 else [], [Text(f"{number} {row}") for row in range(23)], 80, 24)
    foot.end(80)
    screen.write(stream.getvalue())
    assert (screen.history, [row for row in screen.rows if row]) == ([], lines)


def test_more_rows_than_the_terminal_has_are_not_drawn() -> None:
    stream = io.StringIO()
    Foot(stream).draw([], [Text(str(number)) for number in range(50)], 80, 5)
    screen = Screen(80)
    screen.write(stream.getvalue())
    assert screen.rows == ["0", "1", "2", "3", ""]
