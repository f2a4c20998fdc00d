"""SIGINT and SIGTERM, once, twice, thrice, in any order and in every phase: the command ends in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

from tests.unit.toolchain.conftest import ROOT

NUMBERS = (signal.SIGINT, signal.SIGTERM)
SEQUENCES = [each for length in (1, 2, 3) for each in product(NUMBERS, repeat=length)]
# Together, as `timeout` sends them to the whole group; while the first is handled; a user who loses patience.
PAUSES_S = (
    0.0,
    0.05,
    pytest.param(1.2, marks=pytest.mark.slow(reason="pauses add up over all sequences of signals")),
)

# One child for each sequence of signals, forked after the imports: it writes its id, its output and its status.
START = """
import os, sys
from pathlib import Path
from toolchain import __main__ as program, parallel, steps
from toolchain.operating import pulumi_cli

phase, *folders = sys.argv[1:]

def run_phase(folder):
    def command():
        with steps.step("command"):
            steps.run([folder / "pulumi"], log=folder / "log")

    def jobs():
        with parallel.Jobs() as running:
            running.start(command)
            running.start(command)

    def pulumi():
        pulumi_cli.stream({"PATH": f"{folder}:{os.environ['PATH']}"}, "up")

    {"command": command, "jobs": jobs, "pulumi": pulumi}[phase]()

def child(folder):
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1), os.dup2(output, 2)
    program.dispatch = lambda asked: run_phase(folder)
    sys.exit(program.main(["up"]))

for folder in map(Path, folders):
    process = os.fork()
    if not process:
        child(folder)
    whole = folder / "process.new"
    whole.write_text(str(process))
    whole.rename(folder / "process")
for folder in folders:
    process, status = os.waitpid(int(Path(folder, "process").read_text()), 0)
    Path(folder, "status").write_text(str(os.waitstatus_to_exitcode(status)))
"""

# Ends in order a moment after the first interrupt, as pulumi does; a second one makes it end at once.
PULUMI = """#!/bin/sh -e
trap 'trap "exit 3" INT TERM; sleep {linger} >&- 2>&- & wait $!; touch {folder}/ended; exit 1' INT TERM
touch {folder}/started
sleep 60 & wait
"""


def folders(parent: Path, linger: float, count: int) -> list[Path]:
    made = [parent / str(number) for number in range(count)]
    for folder in made:
        folder.mkdir()
        (folder / "pulumi").write_text(PULUMI.format(linger=linger, folder=folder))
        (folder / "pulumi").chmod(0o755)
    return made


def send(folder: Path, numbers: Sequence[signal.Signals], pause: float) -> None:
    """Send `numbers` to the child of `folder`, `pause` seconds apart, once its command runs."""
    deadline = time.monotonic() + 60
    while not (folder / "started").exists() or not (folder / "process").exists():
        assert time.monotonic() < deadline, "nothing was started"
        time.sleep(0.01)
    process = int((folder / "process").read_text())
    time.sleep(0.1)
    for number in numbers:
        if not (folder / "status").exists():
            os.kill(process, number)
        time.sleep(pause)


def interrupt(
    parent: Path, phase: str, sequences: Sequence[Sequence[signal.Signals]], pause: float, linger: float
) -> list[Path]:
    """Run `phase` once for each of `sequences`; the folders with what came of it."""
    made = folders(parent, linger, len(sequences))
    words = [sys.executable, "-c", START, phase, *map(str, made)]
    running = subprocess.Popen(words, cwd=ROOT, start_new_session=True)
    with ThreadPoolExecutor(len(made)) as pool:
        list(pool.map(send, made, sequences, [pause] * len(made)))
    assert running.wait(timeout=60) == 0
    return made


@pytest.mark.parametrize("phase", ["pulumi", "command", "jobs"])
@pytest.mark.parametrize("pause", PAUSES_S)
def test_any_sequence_of_signals_ends_it_in_order(tmp_path: Path, phase: str, pause: float) -> None:
    for numbers, folder in zip(SEQUENCES, interrupt(tmp_path, phase, SEQUENCES, pause, 0.5), strict=True):
        text = (folder / "output").read_text()
        sent = [number.name for number in numbers]
        assert "Traceback" not in text, (sent, text)
        assert text.count("interrupted; the same command continues from here") == 1, (sent, text)
        assert (folder / "status").read_text() == "130", (sent, text)
        if phase == "pulumi" and not pause:
            assert (folder / "ended").exists(), (
                "signals that come together are one interrupt: it ends in order"
            )


def test_a_second_wish_ends_pulumi_before_its_patience_is_over(tmp_path: Path) -> None:
    (folder,) = interrupt(tmp_path, "pulumi", [(signal.SIGINT, signal.SIGTERM)], 1.5, 300)
    assert (folder / "status").read_text() == "130"
    assert not (folder / "ended").exists()
