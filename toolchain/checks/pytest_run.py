"""One run of pytest as a child: an interrupt reaches it once, and what it leaves is taken down."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence

from toolchain.machine.processes import end_with_parent
from toolchain.options import MAKE_GIVEN, MAKE_GOALS
from toolchain.paths import ROOT, VENV
from toolchain.steps import say

PYTHON = VENV / "bin" / "python"
TAKE_DOWN_S = 60


def run(arguments: Sequence[str], variables: Mapping[str, str]) -> int:
    """The exit status of `pytest <arguments>`. Raises KeyboardInterrupt after an interrupt, with everything down."""
    child = subprocess.Popen(
        [PYTHON, "-m", "pytest", *arguments],
        cwd=ROOT,
        env=without_make(variables),
        # A group of its own: the terminal's Ctrl-C would reach its processes twice, and cut their taking down short.
        start_new_session=True,
        preexec_fn=lambda: end_with_parent(signal.SIGINT),
    )
    try:
        return child.wait()
    except KeyboardInterrupt:
        say("interrupted: the tests take down what they have started")
        _end(child)
        subprocess.run([PYTHON, "-m", "tests.e2e.clones"], cwd=ROOT, env=variables)
        raise


def without_make(variables: Mapping[str, str]) -> dict[str, str]:
    """`variables` without what make hands on: tests call make themselves, and ARGS or STACK of this call is not theirs.

    The interpreter stays, which may be the only one that is new enough.
    """
    own = set(re.findall(r"^([A-Z_]+) \?=", (ROOT / "Makefile").read_text(), re.MULTILINE)) - {"PYTHON"}
    own |= {MAKE_GIVEN, MAKE_GOALS}
    return {
        name: value
        for name, value in variables.items()
        if name not in own and not name.startswith(("MAKE", "MFLAGS"))
    }


def _end(child: subprocess.Popen[bytes]) -> None:
    os.killpg(child.pid, signal.SIGINT)
    try:
        child.wait(TAKE_DOWN_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
