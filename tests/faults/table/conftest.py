"""What the table's tests on one cluster share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.project import Project
from tests.faults.table import training


@pytest.fixture(scope="package")
def undisturbed(project: Project) -> Iterator[tuple[float, float]]:
    """Accuracy and loss that the training comes to when nothing happens."""
    with training.started(project) as run:
        yield run.result()


@pytest.fixture(scope="package")
def undisturbed_short(project: Project) -> Iterator[tuple[float, float]]:
    """The same of the short training."""
    with training.started(project, training.SHORT) as run:
        yield run.result()
