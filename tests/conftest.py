"""What the suites on a real engine share."""

from __future__ import annotations

import pytest

ON_ENGINE = {"e2e", "faults", "trainer"}


@pytest.fixture(scope="module", autouse=True)
def engine_answers(request: pytest.FixtureRequest) -> None:
    """Start our engine again where the module before has stopped it with its last `make down`."""
    if request.path.parent.name in ON_ENGINE:
        from toolchain import engine

        engine.ensure()
