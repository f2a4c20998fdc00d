"""Unit tests see neither the cluster of this clone's stacks nor this machine's container engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NoReturn

import pytest
from pulumi.runtime import settings

from infra import paths
from toolchain.machine import engine


@pytest.fixture(autouse=True)
def nothing_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a clone whose stacks are not up, also after `make up`; a test that asks for more makes it itself."""
    monkeypatch.setattr(paths, "STATE", paths.STATE / "nothing-stands-here")
    monkeypatch.setenv("KUBECONFIG", str(paths.STATE / "config"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{paths.STATE}/docker.sock")
    monkeypatch.setattr(engine, "ensure", _refused)


@pytest.fixture(autouse=True)
def nothing_is_registered() -> Iterator[None]:
    """A root resource and an event loop of its own for each program on mocks.

    Pulumi's root resource keeps the marks of all programs before it, with outputs that belong to their event loops; a
    program that ended half way has left some that nobody will ever fill.
    """
    settings.ROOT.set(None)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()


def _refused() -> NoReturn:
    raise AssertionError("a unit test asked for the container engine of this machine")
