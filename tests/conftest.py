"""What the suites on a real engine share, and options that every suite has to know."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.project import Project

ON_ENGINE = {"e2e", "faults", "runbooks", "trainer"}


def pytest_addoption(parser: pytest.Parser) -> None:
    # Here, not beside the runbooks' tests: `make test-full` hands its arguments to the other suites, too.
    text = "write date and result of each runbook into docs/runbooks/rehearsed.md"
    parser.addoption("--record-rehearsal", action="store_true", help=text)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name in ON_ENGINE:
            item.add_marker(pytest.mark.e2e)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show the state of a failed test's cluster."""
    report = yield
    project = getattr(item, "funcargs", {}).get("project")
    if report.failed and report.when == "call" and isinstance(project, Project):
        report.sections.append(("cluster", project.dump()))
    return report


@pytest.fixture(scope="module", autouse=True)
def engine_answers(request: pytest.FixtureRequest) -> None:
    """Start our engine again where the module before has stopped it with its last `make down`."""
    if request.path.parent.name in ON_ENGINE:
        from toolchain.machine import engine

        engine.ensure()
