"""One cluster for the runbooks, one more for a small disk; results go into docs/runbooks/rehearsed.md when asked."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e import project as projects
from tests.e2e.project import Project
from tests.runbooks import recording, transcript
from tests.runbooks.rehearsal import Result

DISK_MIB = 48


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A clone whose stack `dev` is not up yet."""
    with projects.temporary(tmp_path_factory.mktemp("runbooks"), "run") as clone:
        yield clone


@pytest.fixture
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A clone whose models lie on a disk of DISK_MIB."""
    with projects.temporary(tmp_path_factory.mktemp("disk"), "disk") as clone:
        clone.models.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "runbooks", str(clone.models)]
        subprocess.run(mount, check=True)
        try:
            yield clone
        finally:
            clone.make("down")
            subprocess.run(["umount", str(clone.models)], check=True)


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest) -> Iterator[dict[str, Result | None]]:
    """Runbook -> its rehearsal, None for one that failed; the tests fill it in."""
    found: dict[str, Result | None] = {}
    yield found
    if request.config.getoption("--record-rehearsal"):
        today = datetime.date.today().isoformat()
        rows = {name: recording.row(today, result) for name, result in found.items()}
        recording.write(transcript.REHEARSED, rows, transcript.all_names())
