"""Real clusters, each with a name of its own, always taken down."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import project as projects
from tests.e2e.project import Project

MNIST = Path(os.environ.get("TRAINSTACK_MNIST", projects.ROOT / ".." / "shared" / "data" / "mnist"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if projects.phase_times:
        terminalreporter.section("times of make up")
        terminalreporter.write_line("\n".join(projects.phase_times))


@pytest.fixture(scope="session")
def mnist() -> Path | None:
    """The folder of the real MNIST; None where there is none."""
    return MNIST.resolve() if (MNIST / "train-images-idx3-ubyte.gz").exists() else None


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A clone whose stack `dev` is not up yet."""
    with projects.temporary(tmp_path_factory.mktemp("clone"), "e2e") as clone:
        yield clone
