"""Every runbook, typed as it stands: each command's output and exit status are what the runbook shows.

One after the other on one cluster: a runbook's way back leaves the stack as the next one expects it, and a stack that
a failure has left otherwise is repaired first.
"""

from __future__ import annotations

import pytest

from tests.e2e.project import Project
from tests.runbooks import stuck, transcript
from tests.runbooks.rehearsal import Result, rehearse

assert stuck  # it adds its situations

# In `make test`: what needs neither another cluster nor another build.
QUICK = [
    *("change-the-training", "select-pods", "stuck-job", "drift"),
    *("lost-state", "models", "operator-down", "rotate-passphrase"),
]
# Why each of the others waits for `make test-full`. The last ones end with the stack down.
SLOW = {
    "remove-a-job": "two trainings of half a minute",
    "watch-a-run": "a training of half a minute",
    "released-volume": "takes the volume's claim away twice",
    "backends": "a backend of its own, and a wait for a colleague's lock",
    "interrupted-up": "two interrupted trainings, and the stack made anew",
    "upgrade": "builds another version of the operator",
    "cluster-gone": "makes the cluster anew, as tests/e2e/test_repair.py does in `make test`",
    "another-cluster": "makes a second cluster",
    "tear-down": "makes the cluster anew",
    "upgrade-kubernetes": "builds another version of Kubernetes",
}
# With a set-up of their own.
FIRST, SMALL_DISK = "first-deployment", "disk-full"

Results = dict[str, Result | None]


@pytest.mark.slow(reason="makes the cluster anew")
def test_first_deployment_does_what_it_says(project: Project, results: Results) -> None:
    assert project.make("down").returncode == 0
    rehearsed(FIRST, project, results)


LONG = [pytest.param(name, marks=pytest.mark.slow(reason=reason)) for name, reason in SLOW.items()]


@pytest.mark.parametrize("name", [*QUICK, *LONG])
def test_does_what_it_says(project: Project, results: Results, name: str) -> None:
    project.stand_up()
    rehearsed(name, project, results)


@pytest.mark.slow(reason="a cluster of its own, on a small disk")
def test_disk_full_does_what_it_says(small_disk: Project, results: Results) -> None:
    small_disk.up()
    rehearsed(SMALL_DISK, small_disk, results)


def test_every_runbook_is_rehearsed() -> None:
    assert sorted([FIRST, SMALL_DISK, *QUICK, *SLOW]) == transcript.all_names()


def rehearsed(name: str, project: Project, results: Results) -> None:
    results[name] = None
    results[name] = rehearse(transcript.load(name), project, sets_up=name == FIRST)
