"""How long Pulumi takes to refuse a wrong stack file: what a user waits for after a slip of the pen."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from tests.bench.conftest import show, table
from tests.preview.project import Project
from tests.unit.infra.config.wrong_stacks import CASES

pytestmark = pytest.mark.bench

MEDIAN_S = 3.0


def test_a_wrong_stack_file_is_refused_within_seconds(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    project = Project(tmp_path)
    taken = []
    for case in CASES.values():
        project.configure(case.sections)
        began = time.perf_counter()
        assert project.preview().status != 0
        taken.append(time.perf_counter() - began)
    median = statistics.median(taken)
    row = [f"{len(taken)} wrong stack files", f"{median:.2f} s", f"{min(taken):.2f} to {max(taken):.2f} s"]
    show(request, table("refused in preview | median | range", [row]))
    assert median < MEDIAN_S
