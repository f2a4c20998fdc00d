"""The limit on watched files, raised for a suite and given back."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.machine import inotify
from toolchain.steps import SetupError


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "max_user_instances"
    file.write_text("128\n")
    monkeypatch.setattr(inotify, "INSTANCES", file)
    return file


@pytest.mark.parametrize(("wanted", "meanwhile"), [(0, 128), (128, 128), (512, 512)])
def test_a_limit_is_raised_and_given_back(file: Path, wanted: int, meanwhile: int) -> None:
    def interrupted() -> None:
        with inotify.at_least(wanted):
            assert inotify.limit() == meanwhile
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert inotify.limit() == 128


def test_no_limit_is_asked_for_where_none_is_wanted(file: Path) -> None:
    file.unlink()  # macOS has none
    with inotify.at_least(0):
        pass


def test_a_limit_that_is_not_ours_to_set_is_said(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path, text: str) -> int:
        raise PermissionError(text)

    monkeypatch.setattr(Path, "write_text", refuse)
    with (
        pytest.raises(SetupError, match=r"sysctl -w fs\.inotify\.max_user_instances=512"),
        inotify.at_least(512),
    ):
        raise AssertionError("it has begun")
