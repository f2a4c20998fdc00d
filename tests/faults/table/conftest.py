"""What the table's tests share: a cluster for each way of a job, and what the trainings come to there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.faults.table import ground as grounds
from tests.faults.table import training
from tests.faults.table.ground import Ground
from tests.faults.table.rows import Way
from toolchain.machine.engine import Engine


@pytest.fixture(scope="session")
def grounds_by_clone() -> dict[Path, Ground]:
    return {}


@pytest.fixture(scope="module")
def with_pytorchjobs(project: Project, grounds_by_clone: dict[Path, Ground]) -> Ground:
    return grounds_by_clone.setdefault(project.root, Ground(project))


@pytest.fixture(scope="package")
def with_trainjobs(engine: Engine) -> Iterator[Ground]:
    with grounds.of(Way.TRAINJOB) as clone:
        yield Ground(clone)


@pytest.fixture(scope="package")
def with_kueue(engine: Engine) -> Iterator[Ground]:
    with grounds.of(Way.KUEUE) as clone:
        yield Ground(clone)


@pytest.fixture
def way() -> Way:
    """That of the job, where the test has no parameter of this name."""
    return Way.PYTORCHJOB


@pytest.fixture
def ground(request: pytest.FixtureRequest, way: Way) -> Ground:
    """Where the test's faults are done; made when a test first asks for it."""
    found: Ground = request.getfixturevalue(FIXTURES[way])
    return found


FIXTURES = {Way.PYTORCHJOB: "with_pytorchjobs", Way.TRAINJOB: "with_trainjobs", Way.KUEUE: "with_kueue"}


@pytest.fixture
def clone(ground: Ground) -> Project:
    return ground.project


@pytest.fixture
def undisturbed(ground: Ground) -> tuple[float, float]:
    """Accuracy and loss that the training comes to when nothing happens."""
    return ground.undisturbed(training.TRAINING)


@pytest.fixture
def undisturbed_short(ground: Ground) -> tuple[float, float]:
    """The same of the short training."""
    return ground.undisturbed(training.SHORT)
