"""Every error of a command is a sentence, with what helps; a traceback is kept in a file, and not shown."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolchain.__main__ as program
from toolchain import failure, interruption
from toolchain.machine import preflight, processes
from toolchain.paths import ROOT
from toolchain.steps import SetupError

NOBODY = 65534
# Verb -> status and words where nothing but `failing_programs` is there, and no file hinders.
UNHINDERED = {
    "up": (1, "error: some tools have to be built, and Go is not installed"),
    "down": (0, "stack dev is not up"),
    "clean": (0, "removing "),
}
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
        ["x y: Permission denied", "sudo chown -R", str(ROOT / ".trainstack")],
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
    "not foreseen": (KeyError("phase"), ["KeyError: 'phase'", "fix: report it and attach "]),
    "not foreseen and silent": (AssertionError(), ["AssertionError: no message"]),
}

# Somebody else's file in the clone, or in its home -> the folder that the user is to take over; "" for none.
FOLDERS = {
    "clone/.trainstack": "clone/.trainstack",
    "clone/.trainstack/state/x y": "clone/.trainstack",
    "clone/.venv/bin/python": "clone/.venv",
    "clone/data/MNIST/raw": "clone/data",
    "clone/stacks/Pulumi.dev.yaml": "clone/stacks",
    "home/.cache/trainstack/tools/kind": "home/.cache/trainstack",
    "home/elsewhere": "home/elsewhere",
    "clone/models": "",
    "clone/models/dev": "",
    "clone/models/dev/runs/a b/report.json": "",
    "clone": "",
    ".": "",
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
    monkeypatch.setattr(processes, "end_with_parent", lambda signal: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert program.main(["down"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said
    for part in parts:
        assert part in said
    kept = [file.read_text() for file in tmp_path.glob("trainstack-*.log")]
    assert ["Traceback" in text for text in kept] == ([True] if "not foreseen" in case else [])


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("place", FOLDERS)
def test_the_models_stay_with_the_pods_that_write_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str, there: bool
) -> None:
    """Pods save as another user, who owns models/<stack>: no advice may take that folder, or one around it."""
    clone = tmp_path / "clone"
    monkeypatch.setattr(failure, "ROOT", clone)
    monkeypatch.setattr(failure, "MODELS", clone / "models")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / ".cache"))
    file, folder = tmp_path / place, tmp_path / FOLDERS[place]
    if there:
        file.mkdir(parents=True, exist_ok=True)
    advice = failure.others_file(file, "no").fix
    take_over = f"sudo chown -R {os.geteuid()}:{os.getegid()} {shlex.quote(str(folder))}"
    if FOLDERS[place]:
        made = "" if there or place == "home/elsewhere" else f"sudo mkdir -p {folder} && "
        assert advice == made + take_over
    else:
        assert "chown" not in advice
        assert (advice == f"sudo chmod -R a+rX {shlex.quote(str(file))}") == ("models" in place)


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
    shutil.copytree(ROOT / "toolchain", clone / "toolchain", ignore=shutil.ignore_patterns("*.pyc.*"))
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
            "PATH": str(failing_programs(readable / "bin")),
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
        status, said = 1, f"error: {left} cannot be written; it belongs to root"
    elif place == ".trainstack":
        status, said = 1, f"error: {left}/lock: Permission denied\n"
    else:
        status, said = UNHINDERED[verb]
    assert (done.returncode, said in done.stdout + done.stderr) == (status, True), done.stdout + done.stderr
    group = later if as_root else os.getegid()
    advice = f"fix: sudo chown -R {later}:{group} {clone}/{Path(place).parts[0]}\n"
    assert (advice in done.stderr) == (as_root or place == ".trainstack")


def failing_programs(folder: Path) -> Path:
    """The only programs on PATH: none of them gives an engine, a cluster or a package."""
    folder.mkdir()
    for name in ("docker", "kind", "kubectl", "apt-get"):
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    return folder


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
