"""`python -m infra.screen`: reads events from standard input, one JSON object a line, and draws them on standard error.

It ends when its input ends. It has its own session, so Ctrl-C reaches only the program that writes the events.
"""

from __future__ import annotations

import io
import json
import os
import select
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from infra.screen.rows import rows
from infra.screen.view import Event, View

REDRAW_S = 0.25
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
# A terminal that knows these two sequences draws everything between them at once, so erased rows are never visible.
BEGIN, DONE = "\x1b[?2026h", "\x1b[?2026l"
ERASE_ROW = "\x1b[K"


class Foot:
    """Rows at the bottom of a terminal that are drawn again and again. Permanent lines are printed above them.

    It draws on `stream`. Between two calls, the cursor is at the beginning of the line below the last row.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.drawn: list[int] = []
        colours = Console(file=stream, force_terminal=True).color_system or "standard"
        self.console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system=colours,  # type: ignore[arg-type]  # the name that rich itself found
            width=10_000,
            highlight=False,
        )

    def draw(self, lines: Sequence[str], rows: Sequence[Text], width: int, height: int) -> None:
        """Show `lines` permanently, and `rows` below them instead of the earlier rows.

        Parameters:
            width, height: the terminal's size now. A terminal that became narrower has broken long rows into several.
        """
        shown = rows[: max(height - 1, 0)]
        text = "".join(f"{line}\n" for line in [*lines, *(self._styled(row) for row in shown)])
        self.stream.write(f"{BEGIN}{HIDE}{self._back(width)}{text}{DONE}")
        self.stream.flush()
        self.drawn = [row.cell_len for row in shown]

    def end(self, width: int) -> None:
        """Erase the rows and show the cursor again."""
        self.stream.write(f"{self._back(width)}{SHOW}")
        self.stream.flush()
        self.drawn = []

    def _back(self, width: int) -> str:
        up = sum(max(1, -(-length // max(width, 1))) for length in self.drawn)
        # Each row is erased alone: tmux would keep all rows in its history if everything from the upper left corner to
        # the end of the screen was erased at once.
        erased = f"{ERASE_ROW}\n" * up
        return f"\r\x1b[{up}A{erased}\x1b[{up}A" if up else f"\r{ERASE_ROW}"

    def _styled(self, row: Text) -> str:
        with self.console.capture() as captured:
            self.console.print(row, end="", soft_wrap=True)
        return captured.get()


def draw(source: int, foot: Foot, terminal: int) -> None:
    """Draw until `source`, a file descriptor, ends.

    Parameters:
        terminal: a file descriptor of the terminal, which is asked for its size.
    """
    view, rest, open_ = View(), b"", True
    try:
        while open_:
            events: list[Event] = []
            if select.select([source], [], [], REDRAW_S)[0]:
                some = os.read(source, 1 << 16)
                open_ = bool(some)
                *whole, rest = (rest + some).split(b"\n")
                events = [json.loads(line) for line in whole]
            now = time.time()
            for event in events:
                view.apply(event, now)
            width, height = os.get_terminal_size(terminal)
            lines = [event["text"] for event in events if event["is"] == "line"]
            foot.draw(lines, rows(view, now, width, height), width, height)
    finally:
        foot.end(os.get_terminal_size(terminal).columns)


if __name__ == "__main__":
    draw(sys.stdin.fileno(), Foot(sys.stderr), sys.stderr.fileno())
