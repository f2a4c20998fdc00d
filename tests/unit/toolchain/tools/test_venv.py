"""An environment is completed only where it was whole; what was interrupted is made anew."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.steps import StoppedError
from toolchain.tools import venv

Make = Callable[[], Path]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What uv is asked for. It makes an environment with this Python, and installs nothing."""
    words: list[str] = []

    def uv(_uv: Path, folder: Path, *arguments: str | Path) -> None:
        words.append(" ".join(map(str, arguments[: 1 if arguments[0] == "venv" else 2])))
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        if not (folder / "bin" / "python").exists():
            (folder / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(venv, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(venv, "STAMP", tmp_path / ".venv" / venv.STAMP_NAME)
    monkeypatch.setattr(venv, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(venv, "LOCAL", tmp_path / "local")
    monkeypatch.setattr(venv, "find_uv", lambda: Path("uv"))
    monkeypatch.setattr(venv, "_uv", uv)
    monkeypatch.setattr(venv, "_same_python", lambda folder: (folder / "bin" / "python").exists())
    (tmp_path / "lock").write_text("one")
    return words


@pytest.fixture(params=["of the clone", "beside it"])
def make(request: pytest.FixtureRequest, asked: list[str], tmp_path: Path) -> Make:
    if request.param == "of the clone":
        return venv.ensure
    return lambda: venv.ensure_beside(tmp_path / "beside", tmp_path / "lock")


def test_one_that_is_whole_is_left(make: Make, asked: list[str]) -> None:
    make()
    assert asked[:2] == ["venv", "pip sync"]
    asked.clear()
    make()
    assert asked == []


def test_another_lock_changes_what_differs(make: Make, asked: list[str], tmp_path: Path) -> None:
    make()
    (tmp_path / "lock").write_text("two")
    asked.clear()
    make()
    assert asked[0] == "pip sync"


@pytest.mark.parametrize("interrupted_at", ["venv", "pip sync"])
@pytest.mark.parametrize("was_whole", [False, True], ids=["the first time", "at another lock"])
def test_what_was_interrupted_is_made_anew(
    make: Make,
    asked: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    interrupted_at: str,
    was_whole: bool,
) -> None:
    if was_whole:
        make()
        (tmp_path / "lock").write_text("two")
    uv = venv._uv

    def stopped(program: Path, folder: Path, *arguments: str | Path) -> None:
        uv(program, folder, *arguments)
        if asked[-1] in (interrupted_at, "pip sync"):
            raise StoppedError("uv was ended")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(venv, "_uv", stopped)
        with pytest.raises(StoppedError):
            make()
    asked.clear()
    make()
    assert asked[:2] == ["venv", "pip sync"]
