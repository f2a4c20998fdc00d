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
QUICK = ["change-the-training", "select-pods", "stuck-job", "models", "rotate-passphrase"]
# The last ones end with the stack down, or are long.
SLOW = [
    "remove-a-job",
    "watch-a-run",
    "released-volume",
    "backends",
    "interrupted-up",
    "upgrade",
    "cluster-gone",
    "another-cluster",
    "tear-down",
    "upgrade-kubernetes",
]
# With a set-up of their own.
FIRST, SMALL_DISK = "first-deployment", "disk-full"

Results = dict[str, Result | None]


@pytest.mark.slow
def test_first_deployment_does_what_it_says(project: Project, results: Results) -> None:
    assert project.make("down").returncode == 0
    rehearsed(FIRST, project, results)


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_does_what_it_says(project: Project, results: Results, name: str) -> None:
    project.stand_up()
    rehearsed(name, project, results)


@pytest.mark.slow
def test_disk_full_does_what_it_says(small_disk: Project, results: Results) -> None:
    small_disk.up()
    rehearsed(SMALL_DISK, small_disk, results)


def test_every_runbook_is_rehearsed() -> None:
    assert sorted([FIRST, SMALL_DISK, *QUICK, *SLOW]) == transcript.all_names()


def rehearsed(name: str, project: Project, results: Results) -> None:
    results[name] = None
    results[name] = rehearse(transcript.load(name), project, sets_up=name == FIRST)
