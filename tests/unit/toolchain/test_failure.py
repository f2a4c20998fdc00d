"""Every error of a command is a sentence, with what helps; a traceback is kept in a file, and not shown."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolchain.__main__ as program
from toolchain import interruption
from toolchain.machine import preflight
from toolchain.operating import pulumi_cli
from toolchain.paths import ROOT
from toolchain.steps import SetupError

NOBODY = 65534
# Imported as root: another user may not even read this Python.
AS_USER = """
import os, sys
from toolchain import __main__ as program
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
sys.exit(program.main(sys.argv[2:]))
"""
# Error -> what the user reads of it.
ERRORS: dict[str, tuple[Exception, list[str]]] = {
    "somebody else's file": (
        PermissionError(errno.EACCES, "Permission denied", str(ROOT / ".trainstack" / "x y")),
        ["x y: Permission denied", "fix: sudo chown -R", str(ROOT)],
    ),
    "somebody else's, elsewhere": (
        PermissionError(errno.EPERM, "Operation not permitted", "/some where"),
        ["/some where: Operation not permitted", "fix: sudo chown -R", "'/some where'"],
    ),
    "a full disk": (
        OSError(errno.ENOSPC, "No space left on device", "/x"),
        ["/x: No space left", "fix: free some"],
    ),
    "a folder in a file's place": (
        IsADirectoryError(errno.EISDIR, "Is a directory", b"/x"),
        ["/x: Is a directory"],
    ),
    "no name": (OSError("the disk is odd"), ["the disk is odd"]),
    "a command": (
        subprocess.CalledProcessError(2, ["go", "env"], stderr="no go here\n"),
        ["`go env` failed (2): no go here"],
    ),
    "a command that says bytes": (
        subprocess.CalledProcessError(2, "go", output=b"no\n"),
        ["`go` failed (2): no"],
    ),
    "not foreseen": (KeyError("phase"), ["KeyError: 'phase'", "fix: report it, with "]),
    "not foreseen and silent": (AssertionError(), ["AssertionError: no more is said"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_each_kind_of_error_is_a_sentence(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    error, parts = ERRORS[case]

    def fail(_asked: object) -> int:
        raise error

    monkeypatch.setattr(program, "dispatch", fail)
    monkeypatch.setattr(interruption, "catch", lambda hasten: None)
    monkeypatch.setattr(pulumi_cli, "end_with_parent", lambda signal: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert program.main(["down"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said
    for part in parts:
        assert part in said
    kept = [file.read_text() for file in tmp_path.glob("trainstack-*.log")]
    assert ["Traceback" in text for text in kept] == ([True] if "not foreseen" in case else [])


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that every user may enter: pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="trainstack-unit-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("place", [".trainstack", ".trainstack/logs", ".trainstack/env.json", ".venv/bin"])
@pytest.mark.parametrize("verb", ["up", "down", "clean"])
def test_what_an_earlier_run_as_another_user_left_is_named(readable: Path, place: str, verb: str) -> None:
    """Root plays the earlier user here, and nobody the later; another user plays both, with a folder that refuses."""
    clone = readable / "clone"
    shutil.copytree(ROOT / "toolchain", clone / "toolchain", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("requirements.lock", "pyproject.toml"):
        shutil.copy2(ROOT / name, clone / name)
    (clone / "stacks").mkdir()
    (clone / "stacks" / "Pulumi.dev.yaml").write_text("config: {}\n")
    left = clone / place
    left.parent.mkdir(exist_ok=True)
    (left.write_text("{}") if left.suffix else left.mkdir())
    (readable / "home").mkdir()
    as_root = os.geteuid() == 0
    later = NOBODY if as_root else os.geteuid()
    if as_root:
        for path in (clone, left.parent, readable / "home"):
            if path != left:
                os.chown(path, later, later)
    else:
        left.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-c", AS_USER, str(later), verb],
        cwd=clone,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(readable / "home"),
            "TRAINSTACK_MACHINE": str(readable / "home/m"),
        },
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert "Traceback" not in done.stderr, done.stderr
    if as_root:
        assert done.returncode == 1
        assert f"error: {left} cannot be written; it belongs to root" in done.stderr
        assert f"fix: sudo chown -R {later}:" in done.stderr


def test_what_is_ours_or_missing_is_no_reason_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "own").touch(mode=0o400)
    (tmp_path / "dangling").symlink_to("/nowhere")
    preflight.check_access([tmp_path, tmp_path / "missing"])


def test_a_folder_of_somebody_elses_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place).name != "file")
    with pytest.raises(SetupError, match=r"a/file cannot be written; it belongs to"):
        preflight.check_access([tmp_path])
