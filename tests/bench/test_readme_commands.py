"""The two commands of README: `make up` on a machine that has nothing, `make test` in a clone that is up.

The working tree and the commit of `--before` take turns.
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.bench.conftest import NOW, Recorder, show, table
from tests.e2e import clones, machines
from tests.e2e.machines import Go
from toolchain.tools.installed import user_path

pytestmark = [pytest.mark.e2e, pytest.mark.bench, pytest.mark.thorough]

ROUNDS = 2
SETTLED_S = 60
"""ext4 without a journal takes a deleted file's inode no sooner: RECENCTY_MIN in the kernel's ialloc.c."""
HANG_S = 2 * 3600
STAGE = re.compile(r"^=+ \d+ passed.* in ([\d.]+)s\b", re.MULTILINE)
"""What pytest says at the end of a stage of the tests."""
Seconds = dict[str, float]
"""Step -> how long it took."""


def test_a_first_start(commits: dict[str, str], record: Recorder, request: pytest.FixtureRequest) -> None:
    """Debian with README's prerequisites, Go and nothing else: all is downloaded and compiled."""
    measure("first-start", commits, first_start, record, request)


def test_all_tests(
    commits: dict[str, str],
    record: Recorder,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a new clone after `make up`, on the user's own PATH."""
    monkeypatch.setenv("PATH", user_path())
    measure("all-tests", commits, all_tests, record, request)


def first_start(commit: str) -> Seconds:
    with machines.standing("bookworm", "/root/trainstack", go=Go.EMPTY_CACHES, commit=commit) as project:
        began = time.perf_counter()
        project.up()
        return {"make up": time.perf_counter() - began}


def all_tests(commit: str) -> Seconds:
    with (
        clones.owned("tests") as folder,
        clones.standing(clones.unchanged(folder / "trainstack", commit)) as project,
    ):
        project.up()
        began = time.perf_counter()
        done = project.make("test", timeout=HANG_S)
        took = time.perf_counter() - began
    assert done.returncode == 0, done.stdout[-20000:]
    units, _ = map(float, STAGE.findall(done.stdout))
    return {"make test": took, "its unit tests": units}


def measure(
    name: str,
    commits: dict[str, str],
    seconds: Callable[[str], Seconds],
    record: Recorder,
    request: pytest.FixtureRequest,
) -> None:
    """Write each time as data `name` as soon as it is known, and print medians.

    Parameters:
        seconds: measures a commit once.
    """
    times: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for side, commit in commits.items():
            os.sync()
            time.sleep(SETTLED_S)
            for step, took in seconds(commit).items():
                times[step, side].append(round(took, 1))
                show(request, f"{step}, {side}: {took:.0f} s")
            known = times.items()
            record(name, [{"side": of, "step": step, "seconds": taken} for (step, of), taken in known])
    rows = []
    for (step, side), measured in times.items():
        median = statistics.median(measured)
        spread = f"{median:.0f} s ({min(measured):.0f} to {max(measured):.0f})"
        rows.append([step, side, spread, f"{statistics.median(times[step, NOW]) / median:.2f}"])
    show(request, f"\n{table('step | side | median (range) | of it, the working tree takes', rows)}")
