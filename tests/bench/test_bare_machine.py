"""The two commands of README on machines of Debian with its prerequisites, Go and nothing else: `make up`, `make test`.

Each time is that of a new machine. Machines of the working tree and of the commit of `--before` take turns.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.bench.conftest import NOW, Recorder, show, table
from tests.e2e import machines
from tests.e2e.machines import Go, ProjectInside

pytestmark = [pytest.mark.e2e, pytest.mark.bench, pytest.mark.thorough]

ROUNDS = 2
SETTLED_S = 60
"""ext4 without a journal takes a deleted file's inode no sooner: RECENTCY_MIN in the kernel's ialloc.c."""


def test_a_first_start(commits: dict[str, str], record: Recorder, request: pytest.FixtureRequest) -> None:
    """All is downloaded and compiled."""
    measure("first-start", commits, Go.EMPTY_CACHES, first_start, record, request)


def test_all_tests(commits: dict[str, str], record: Recorder, request: pytest.FixtureRequest) -> None:
    """In a clone that is up."""
    measure("all-tests", commits, Go.WITH_CACHES, all_tests, record, request)


def first_start(project: ProjectInside) -> float:
    began = time.perf_counter()
    project.up()
    return time.perf_counter() - began


def all_tests(project: ProjectInside) -> float:
    project.up()
    began = time.perf_counter()
    done = project.make("test")
    assert done.returncode == 0, done.stdout[-20000:]
    return time.perf_counter() - began


def measure(
    name: str,
    commits: dict[str, str],
    go: Go,
    seconds: Callable[[ProjectInside], float],
    record: Recorder,
    request: pytest.FixtureRequest,
) -> None:
    """Write each time as data `name` as soon as it is known, and print medians.

    Parameters:
        seconds: what is measured on a new machine.
    """
    times: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for side, commit in commits.items():
            os.sync()
            time.sleep(SETTLED_S)
            with machines.standing("bookworm", "/root/trainstack", go=go, commit=commit) as project:
                times[side].append(seconds(project))
            record(name, [{"side": one, "seconds": round(each, 1)} for one in times for each in times[one]])
            show(request, f"{name}, {side}: {times[side][-1]:.0f} s")
    now = statistics.median(times[NOW])
    rows = []
    for side, measured in times.items():
        median = statistics.median(measured)
        spread = f"{median:.0f} s ({min(measured):.0f} to {max(measured):.0f})"
        rows.append([side, spread, f"{now / median:.2f}"])
    show(request, f"\n{table(f'{name} | median (range) | of it, the working tree takes', rows)}")
