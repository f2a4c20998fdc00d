"""Unit tests see neither the cluster of this clone's stacks nor this machine's container engine."""

from __future__ import annotations

from typing import NoReturn

import pytest

from infra import paths
from toolchain.machine import engine


@pytest.fixture(autouse=True)
def nothing_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a clone whose stacks are not up, also after `make up`; a test that asks for more makes it itself."""
    monkeypatch.setattr(paths, "STATE", paths.STATE / "nothing-stands-here")
    monkeypatch.setenv("KUBECONFIG", str(paths.STATE / "config"))
    monkeypatch.setattr(engine, "ensure", _refused)


def _refused() -> NoReturn:
    raise AssertionError("a unit test asked for the container engine of this machine")
