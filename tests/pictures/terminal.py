"""Commands on a terminal of our own, and what stands there as SVG: rich's export of real output, colours included."""

from __future__ import annotations

import codecs
import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH, HEIGHT = 120, 60
PROMPT = "$ "
# Colours stay in the rows. A carriage return alone does nothing: our commands erase the row after it.
_MOVES = re.compile(r"\r|\n|\x1b\[(\d*)([AJK])|\x1b\[\?\d+[hl]")
_UNFINISHED = re.compile(r"\x1b(\[[?\d;]*)?$")
# rich names a server for its font; a picture in a page may fetch nothing.
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
FONT = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'


class Rows:
    """The rows of a terminal, with their colours, as far as our commands and the live view move in it."""

    def __init__(self) -> None:
        self.rows = [""]
        self.row = 0
        self.rest = ""

    def write(self, output: str) -> None:
        """Take `output` as a terminal does."""
        output, at = self.rest + output, 0
        unfinished = _UNFINISHED.search(output)
        self.rest = unfinished[0] if unfinished else ""
        output = output.removesuffix(self.rest)
        for move in _MOVES.finditer(output):
            self.rows[self.row] += output[at : move.start()]
            self._move(move[0], int(move[1] or 1), move[2])
            at = move.end()
        self.rows[self.row] += output[at:]

    def shown(self) -> list[str]:
        """The rows but for empty ones at the end."""
        kept = list(self.rows)
        while kept and not plain(kept[-1]):
            kept.pop()
        return kept

    def _move(self, whole: str, number: int, command: str | None) -> None:
        if whole == "\n":
            self.row += 1
            self.rows += [""] * (self.row + 1 - len(self.rows))
        elif command == "A":
            self.row = max(self.row - number, 0)
        elif command == "J":
            self.rows[self.row :] = [""]
        elif command == "K":
            self.rows[self.row] = ""


@dataclass(frozen=True)
class Result:
    """How a command has ended.

    Parameters:
        rows: what stood on the terminal then, with colours.
        during: what stood there when `kept` said the last time that it is to be kept; empty where it never did.
    """

    status: int
    rows: list[str]
    during: list[str]

    @property
    def text(self) -> str:
        """The rows without colours."""
        return "".join(f"{plain(row)}\n" for row in self.rows)


def plain(row: str) -> str:
    """A row without its colours."""
    return Text.from_ansi(row).plain.rstrip()


def run(
    command: str,
    folder: Path,
    environment: Mapping[str, str],
    kept: Callable[[Sequence[str]], bool] = lambda rows: False,
    *,
    limit_s: float,
) -> Result:
    """Type `command` in a bash on a terminal in `folder`, to its end. Raises TimeoutError after `limit_s` seconds."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    variables = {name: value for name, value in environment.items() if name not in ("CI", "NO_COLOR")}
    child = subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-c", command],
        cwd=folder,
        env={**variables, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    screen = Rows()
    during: list[str] = []
    try:
        for output in read(ours, time.monotonic() + limit_s):
            screen.write(output)
            shown = screen.shown()
            if kept([plain(row) for row in shown]):
                during = shown
        return Result(child.wait(limit_s), screen.shown(), during)
    finally:
        os.close(ours)
        if child.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def read(terminal: int, end: float) -> Iterator[str]:
    """What is written to `terminal` until nobody has its other end any more. Raises TimeoutError."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        if not select.select([terminal], [], [], max(end - time.monotonic(), 0))[0]:
            raise TimeoutError("the command has not ended in time")
        try:
            some = os.read(terminal, 1 << 16)
        except OSError:
            return
        if not some:
            return
        yield decoder.decode(some)


def picture(command: str, rows: Sequence[str], name: str) -> str:
    """SVG of a terminal in which `command` was typed and `rows` are shown.

    Parameters:
        name: a word; two pictures in one page have different ones.
    """
    console = Console(
        record=True,
        file=io.StringIO(),
        width=WIDTH,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        _environ={},
    )
    console.print(Text(PROMPT, style="bold green") + Text(command, style="bold"), soft_wrap=False)
    for row in rows:
        console.print(Text.from_ansi(row), soft_wrap=False, overflow="fold", no_wrap=False)
    exported = console.export_svg(title="trainstack", unique_id=name)
    return _FONTS.sub("", exported).replace("Fira Code, monospace", FONT)


def cleaned(rows: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """`rows` with each of `words` replaced: names of the machine by those that a reader has."""

    def clean(row: str) -> str:
        for ours, theirs in words.items():
            row = row.replace(ours, theirs)
        return row

    return [clean(row) for row in rows]
