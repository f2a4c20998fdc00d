"""A cluster on a container engine that is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.clusters.kind.config import KindConfig
from tests.unit.infra.clusters.kind.standin import NODE_IMAGE, Engine


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    """The stand-in, without a node."""
    return Engine(monkeypatch, tmp_path)


@pytest.fixture
def props() -> dict[str, Any]:
    """Inputs of the cluster `c`."""
    return {"config": KindConfig(name="c", stack="dev").encode(), "image": NODE_IMAGE}
