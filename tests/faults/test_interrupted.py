"""kill -9 at any moment of `make up`, then `make up` again: it finishes, and nothing has to be repaired by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import project as projects
from tests.e2e.project import Project, clean_environment


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with projects.temporary(tmp_path_factory.mktemp("killed"), "kill") as clone:
        yield clone


def start(project: Project) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["make", "up", f"STACK={project.stack}"],
        cwd=project.root,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def descendants(root: int) -> list[int]:
    """Process ids of `root` and everything it has started, the newest first; dockerd is its own session and stays."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting += parents.get(found[-1], [])
    return found[::-1]


def kill_after(project: Project, seconds: float) -> bool:
    """Start `make up` and kill all its processes after `seconds`; False when it had ended by itself before."""
    running = start(project)
    time.sleep(seconds)
    alive = running.poll() is None
    for process in descendants(running.pid) if alive else []:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    running.wait()
    return alive


# Seconds after the start: set-up, kind, the operator, the job.
MOMENTS = [14.0, *(pytest.param(seconds, marks=pytest.mark.slow) for seconds in (3.0, 7.0, 22.0, 35.0, 50.0))]


@pytest.mark.parametrize("seconds", MOMENTS)
def test_make_up_finishes_what_a_killed_run_left(project: Project, seconds: float) -> None:
    assert kill_after(project, seconds), f"`make up` was done within {seconds} s: choose an earlier moment"

    finished = project.up()

    assert float(finished["accuracy"]) >= 0.95
    project.run("pulumi", "preview", "--expect-no-changes", "--stack", project.stack)
    project.make("down")


def test_ctrl_c_ends_at_once_and_up_again_finishes(project: Project) -> None:
    running = start(project)
    time.sleep(12)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(timeout=60) != 0

    finished = project.up()

    assert float(finished["accuracy"]) >= 0.95
