"""The live view on a terminal: a program of the virtual environment that gets events from this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from toolchain.operating import pulumi_output
from toolchain.paths import ROOT
from toolchain.progress import Event, is_terminal
from toolchain.steps import draw_on
from toolchain.tools import venv

MODULE = "infra.screen"
END_S = 5.0
SHOW_CURSOR = "\x1b[?25h"


class LiveView:
    """A view that begins when its program is installed. If an event cannot be sent to it, plain lines follow."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Draw from now on, if there is a terminal and the program is installed."""
        if self.child or not is_terminal() or pulumi_output.is_verbose() or not venv.is_complete():
            return
        # The view has its own session: Ctrl-C goes to this process only, and the view draws the end.
        self.child = subprocess.Popen(
            venv.command(MODULE),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=None,
            start_new_session=True,
        )
        assert self.child.stdin
        os.set_blocking(self.child.stdin.fileno(), False)  # a view that hangs must not block us
        draw_on(self)

    def send(self, event: Event) -> bool:
        """Send `event`; returns whether the view still runs."""
        data = json.dumps(event).encode() + b"\n"
        try:
            if self.child and self.child.stdin and os.write(self.child.stdin.fileno(), data) == len(data):
                return True
        except OSError:
            pass
        self._end(0)
        return False

    def end(self) -> None:
        """Let the view draw the events so far, then print plain lines again."""
        draw_on(None)
        self._end(END_S)

    def _end(self, patience: float) -> None:
        child, self.child = self.child, None
        if child is None:
            return
        assert child.stdin
        child.stdin.close()
        try:
            status = child.wait(patience)
        except subprocess.TimeoutExpired:
            child.kill()
            status = child.wait()
        if status:
            sys.stderr.write(f"\r{SHOW_CURSOR}")
            sys.stderr.flush()


@contextmanager
def shown() -> Iterator[LiveView]:
    """A live view while the block runs, if one can be drawn."""
    view = LiveView()
    view.begin()
    try:
        yield view
    finally:
        view.end()
