"""A board that `make board` has started: where it is, and what it answers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from tests.e2e import processes
from tests.e2e.waiting import HANG_S, wait_until

SAID = re.compile(r"TensorBoard \S+ at (http://127\.0\.0\.1:\d+/)")


def address(making: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the board of `making`, which writes to `log`, says where it is."""

    def said() -> str:
        assert making.poll() is None, log.read_text()
        found = SAID.search(log.read_text())
        return found[1] if found else ""

    wait_until("TensorBoard says where it is", lambda: bool(said()))
    return said()


def ask(address: str, question: str) -> Any:
    """What TensorBoard's own page asks it for, as JSON."""
    with urllib.request.urlopen(f"{address}{question}", timeout=HANG_S) as answer:
        return json.load(answer)


def end(making: subprocess.Popen[bytes], log: Path, folder: Path) -> None:
    """End it as a terminal does; nothing of it is left at work in `folder`."""
    os.killpg(making.pid, signal.SIGINT)
    making.wait(HANG_S)
    wait_until(
        "nothing of it runs",
        lambda: not any("tensorboard" in each for each in processes.working_in(folder).values()),
    )
    assert "Traceback" not in log.read_text()
