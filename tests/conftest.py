"""What the suites on a real engine share, and options that every suite has to know."""

from __future__ import annotations

import pytest

ON_ENGINE = {"e2e", "faults", "runbooks", "trainer"}


def pytest_addoption(parser: pytest.Parser) -> None:
    # Here, not beside the runbooks' tests: `make test-full` hands its arguments to the other suites, too.
    text = "write date and result of each runbook into docs/runbooks/rehearsed.md"
    parser.addoption("--record-rehearsal", action="store_true", help=text)


@pytest.fixture(scope="module", autouse=True)
def engine_answers(request: pytest.FixtureRequest) -> None:
    """Start our engine again where the module before has stopped it with its last `make down`."""
    if request.path.parent.name in ON_ENGINE:
        from toolchain import engine

        engine.ensure()
