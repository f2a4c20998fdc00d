"""Which engine is used where several could be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.conftest import Fake
from toolchain.machine.engine import client, daemon

# docker that answers where the file of its engine exists: `user`, or `ours`.
DOCKER = 'test "$DOCKER_HOST" = {host} && test -e {folder}/ours || test -z "$DOCKER_HOST" -a -e {folder}/user'


@pytest.fixture
def engines(tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files `user` and `ours` say which engine answers."""
    monkeypatch.setattr(daemon, "DATA", tmp_path / "data")
    monkeypatch.setattr(daemon, "SOCKET", tmp_path / "ours")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    fake("docker", DOCKER.format(host=daemon.HOST, folder=tmp_path))
    return tmp_path


def start(engines: Path, *names: str) -> None:
    for name in names:
        (engines / name).touch()


def hold_a_container(engines: Path) -> None:
    (engines / "data" / "containers" / "0123").mkdir(parents=True)


def used(engines: Path) -> str | None:
    found = client.find()
    return None if found is None else "ours" if found.ours else "user"


def test_the_users_comes_first_while_ours_holds_nothing(engines: Path) -> None:
    assert used(engines) is None
    start(engines, "ours")
    assert used(engines) == "ours"
    start(engines, "user")
    assert used(engines) == "user"


def test_after_a_reboot_the_systems_engine_does_not_take_the_place_of_ours(engines: Path) -> None:
    """Debian's package starts one with the machine; ours, which holds the cluster, is not started yet."""
    hold_a_container(engines)
    start(engines, "user")
    assert used(engines) is None, "so that ours is started"
    start(engines, "ours")
    assert used(engines) == "ours"


def test_an_engine_that_is_named_is_used_whatever_else_there_is(
    engines: Path, monkeypatch: pytest.MonkeyPatch, fake: Fake
) -> None:
    hold_a_container(engines)
    start(engines, "ours")
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere")
    assert used(engines) is None
    fake("docker", "exit 0")
    assert used(engines) == "user"


def test_ours_by_its_name_is_ours(engines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(engines, "user", "ours")
    monkeypatch.setenv("DOCKER_HOST", daemon.HOST)
    assert used(engines) == "ours"
