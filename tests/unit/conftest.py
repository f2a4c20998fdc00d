"""Unit tests see neither the cluster of this clone's stacks nor this machine's container engine."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import hypothesis
import pytest
from pulumi.runtime import settings

from infra import paths
from toolchain.machine import engine
from toolchain.paths import LINKS, LOCAL, ROOT

Fake = Callable[[str, str], Path]
"""Name and script of a program, to its file: see the fixture `fake`."""

# No example fails because a machine is slow.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(autouse=True, scope="package")
def own_files() -> Iterator[None]:
    """The files of this clone's stacks stay as they are: each process of the tests has a folder in their place.

    Each module that names one of them gets the new name. The links to tools stay where they are. A process that goes on
    with tests of another folder has the old names back.
    """
    ours = LOCAL
    ours.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="unit-", dir=ours) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        for module, (name, value) in [(each, pair) for each in _modules() for pair in vars(each).items()]:
            if isinstance(value, Path) and value.is_relative_to(ours) and value != LINKS:
                patch.setattr(module, name, folder / value.relative_to(ours))
        yield


@pytest.fixture(autouse=True, scope="package")
def no_pauses() -> Iterator[None]:
    """Between two looks at something, no command waits as long as it does for a user."""
    with pytest.MonkeyPatch.context() as patch:
        for module in _modules():
            if "PAUSE_S" in vars(module) and not module.__name__.startswith("tests."):
                patch.setattr(module, "PAUSE_S", 0.01)
        yield


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


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Put a shell script first on this process's PATH."""
    folder = tmp_path / "fakes"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def make(name: str, script: str) -> Path:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        return folder / name

    return make


def _modules() -> list[ModuleType]:
    """The modules of this clone."""
    return [
        each for each in sys.modules.values() if str(getattr(each, "__file__", None)).startswith(f"{ROOT}/")
    ]


def _refused() -> NoReturn:
    raise AssertionError("a unit test asked for the container engine of this machine")
