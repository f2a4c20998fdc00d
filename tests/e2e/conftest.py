"""A clone for each file that needs a cluster of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e import clones
from tests.e2e.project import Project
from toolchain.machine.engine import Engine


@pytest.fixture(scope="module")
def clone(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Project]:
    """A clone with a cluster of the file's own. `CONFIGURED` of the file is what its stack file has besides."""
    name = request.module.__name__.rpartition(".test_")[2].replace("_", "-")
    with clones.temporary(name) as made:
        made.configure(getattr(request.module, "CONFIGURED", {}))
        yield made
