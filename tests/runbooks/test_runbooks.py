"""Every runbook, typed as it stands: each command's output and exit status are what the runbook shows.

One after the other on one cluster: a runbook's way back leaves the stack as the next one expects it, and a stack that
a failure has left otherwise is repaired first.
"""

from __future__ import annotations

import pytest

from tests.e2e.project import Project
from tests.runbooks import stuck, transcript
from tests.runbooks.rehearsal import Result, rehearse
from tests.runbooks.suites import FIRST, QUICK, SLOW, SMALL_DISK

assert stuck  # it adds its situations

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


def rehearsed(name: str, project: Project, results: Results) -> None:
    results[name] = None
    results[name] = rehearse(transcript.load(name), project, sets_up=name == FIRST)
