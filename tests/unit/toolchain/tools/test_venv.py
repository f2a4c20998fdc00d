"""An environment is completed only where it was whole; what was interrupted is made anew."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import paths, process
from infra.config import ConfigError
from toolchain.steps import SetupError, StoppedError
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


def test_the_programs_modules_are_imported_from_its_packages_and_not_from_the_systems(tmp_path: Path) -> None:
    """By the Python that `.venv` was made with, as on a bare machine; the system may have another pydantic."""
    theirs = tmp_path / "dist-packages"
    theirs.mkdir()
    (theirs / "pydantic.py").write_text("raise ImportError('of the system')")
    code = f"""
import sys
from pathlib import Path
sys.path.append({str(theirs)!r})
from toolchain.tools import venv
venv.VENV, venv.ensure = Path({sys.prefix!r}), lambda: None
assert not {{"pydantic", "yaml", "infra.config"}} & sys.modules.keys()
with venv.program():
    from infra.config import Stack
with venv.program():
    print(len(sys.path), len(set(sys.path)), sys.modules["pydantic"].__file__)
"""
    python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    done = subprocess.run(
        [python, "-s", "-c", code], cwd=paths.ROOT, env={"PATH": ""}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    folders, different, file = done.stdout.split()
    assert folders == different
    assert file.startswith(sys.prefix)


def test_the_programs_errors_are_sentences_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venv, "ensure", lambda: None)
    with pytest.raises(SetupError, match=r"^what is wrong\n  fix: this$"), venv.program():
        raise ConfigError("what is wrong\n  fix: this")
    with pytest.raises(ValueError, match="a defect"), venv.program():
        raise ValueError("a defect")


def test_its_commands_get_the_variables_and_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venv, "ensure", lambda: None)
    before = dict(os.environ)
    with venv.program({"PATH": os.environ["PATH"], "KUBECONFIG": "of the stack"}):
        said = process.output("env").splitlines()
        assert dict(os.environ) == before
    assert "KUBECONFIG=of the stack" in said
    assert not any(line.startswith("HOME=") for line in said)
    assert process.variables() is os.environ
