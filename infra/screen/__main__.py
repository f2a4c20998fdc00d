"""`python -m infra.screen`: draws on the terminal of standard error what standard input tells, one JSON object a line.

Ends with its input. It has a session of its own: Ctrl-C is for whoever feeds it.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time

from infra.screen.rows import rows
from infra.screen.terminal import Foot
from infra.screen.view import Event, View

REDRAW_S = 0.25


def draw(source: int, foot: Foot, terminal: int) -> None:
    """Draw until `source`, a file descriptor, ends.

    Parameters:
        terminal: the file descriptor that tells the terminal's size.
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
