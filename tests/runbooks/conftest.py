"""A cluster for a small disk; results go into docs/runbooks/rehearsed.md when asked."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pytest

from tests.e2e.project import Project
from tests.faults.table.ground import on_file_system
from tests.runbooks import recording, transcript
from tests.runbooks.rehearsal import Result
from toolchain.machine.engine import Engine

DISK_MIB = 48


@pytest.fixture(scope="module")
def project(project: Project) -> Project:
    """The group's clone, which trains on digits: runbooks show those runs, and how long they take."""
    project.data = ()
    return project


@pytest.fixture
def small_disk(engine: Engine) -> Iterator[Project]:
    """A clone whose models lie on a disk of DISK_MIB."""
    with on_file_system("disk", DISK_MIB) as clone:
        yield clone


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest) -> Iterator[dict[str, Result | None]]:
    """Runbook -> its rehearsal, None for one that failed; the tests fill it in."""
    found: dict[str, Result | None] = {}
    yield found
    if request.config.getoption("--record-rehearsal"):
        today = datetime.date.today().isoformat()
        rows = {name: recording.row(today, result) for name, result in found.items()}
        recording.write(transcript.REHEARSED, rows, transcript.all_names())
