"""Wrong stack files in real previews: refused before anything is registered, the error complete.

The program's answer to each row of the table is asked by tests/unit/infra/config/test_errors.py. What is new here is
Pulumi: its reading of the stack file, its exit code, its events. One row of each form tells that.
That a good stack file registers, test_stacks.py says.
How long a refusal takes is measured in tests/bench.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.preview.project import Project
from tests.unit.infra.config.wrong_stacks import CASES

ROWS = (
    "no job",
    "section is no mapping",
    "a bad value in a matrix",
    "models may be deleted",
    "hostPath elsewhere",
    "image without digest",
    "no such project",
    "an encrypted word of the command",
    "an encrypted environment",
    "an encrypted section",
    "root in a job",
    "a search without options",
    "a protected stack on a cluster that nobody names",
)
FAILED = (1, 255)  # as the present CLI ends, and as older ones do


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project(tmp_path_factory.mktemp("preview"))
    yield made
    assert made.state() == [], "nothing of what was previewed is in the state"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ROWS)
def test_is_refused_in_preview(project: Project, name: str) -> None:
    case = CASES[name]
    project.configure(case.sections)
    found = project.preview()

    assert found.status in FAILED, found.shown
    assert found.registered == [], found.shown
    [text] = [error for error in found.errors if error.startswith("stacks/")]
    case.check(text)
    assert case.key.rpartition(".")[2] in found.shown, "the user sees it, too"
    assert "Traceback" not in found.shown
