"""Who stops our engine, and who is asked before."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from toolchain.machine import locks, packages
from toolchain.machine.engine import client, daemon, service
from toolchain.machine.engine.client import Engine

OURS, THEIRS = Engine("docker", ours=True), Engine("docker", ours=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine whose engine runs no container. Nothing of this machine's is touched."""
    monkeypatch.setattr(locks, "MACHINE", tmp_path)
    monkeypatch.setattr(daemon, "HOME", tmp_path)
    monkeypatch.setattr(service, "_in_use", [])
    monkeypatch.setattr(service, "find", lambda: OURS)
    monkeypatch.setattr(client.Engine, "output", lambda self, *words: "")
    monkeypatch.setattr(packages, "available", lambda: True)
    monkeypatch.setattr(packages, "finish_interrupted", lambda: None)
    for name in ("stop", "sweep"):
        monkeypatch.setattr(daemon, name, (tmp_path / f"{name}ped").touch)
    yield tmp_path
    for handle in service._in_use:
        handle.close()


def test_root_stops_an_engine_that_nobody_uses(home: Path) -> None:
    service.ensure()
    assert service.stop()
    assert (home / "stopped").exists()


def test_nobody_is_given_an_engine_that_is_being_stopped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        with (home / service.IN_USE).open() as theirs, pytest.raises(BlockingIOError):
            fcntl.flock(theirs, fcntl.LOCK_SH | fcntl.LOCK_NB)
        (home / "stopped").touch()

    monkeypatch.setattr(daemon, "stop", stop)
    service.ensure()
    assert service.stop()
    assert (home / "stopped").exists()
    with (home / service.IN_USE).open() as theirs:
        fcntl.flock(theirs, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_another_user_leaves_roots_engine_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its process nor the files beside it are theirs."""
    service.ensure()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (home / "engine.lock").mkdir()  # nobody can open it
    assert not service.stop()
    assert not (home / "stopped").exists()


def test_an_engine_that_another_user_works_with_is_not_stopped(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is root's, so another user holds it open to read."""
    (home / service.IN_USE).touch(0o444)
    with monkeypatch.context() as theirs:
        theirs.setattr(os, "geteuid", lambda: 1000)
        held: list[IO[str]] = []
        theirs.setattr(service, "_in_use", held)
        service.ensure()
    assert len(held) == 1
    with (home / service.IN_USE).open("a") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not service.stop()
    held[0].close()
    assert service.stop()


def test_where_root_has_started_none_nothing_is_made(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(service, "find", lambda: THEIRS)
    assert service.ensure() == THEIRS
    assert service.stop(), "nothing of ours runs"
    assert list(home.iterdir()) == []
