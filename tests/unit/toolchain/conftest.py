"""Fake programs, and a copy of the toolchain that a test may run as a user would."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from toolchain.operating import environment

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 600  # no test fails for want of speed


@dataclass
class Machine:
    """A project folder, a home and a folder of fake programs that is first on PATH."""

    root: Path
    home: Path
    bin: Path
    calls: Path
    variables: dict[str, str] = field(default_factory=dict)

    def program(self, name: str, script: str) -> Path:
        """A shell script that notes each call before it does its work."""
        path = self.bin / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> "{self.calls}"\n{script}\n')
        path.chmod(0o755)
        return path

    def called(self, name: str) -> list[str]:
        """The argument lists that the fake `name` was called with."""
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{name} ")]

    def environment(self, **more: str) -> dict[str, str]:
        system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {
            "PATH": f"{self.bin}:{system}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TRAINSTACK_MACHINE": str(self.home / "machine"),
            **self.variables,
            **more,
        }

    def toolchain(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """`python3 -m toolchain <arguments>` in the project folder."""
        return self._run(["-m", "toolchain", *arguments], variables)

    def python(self, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A piece of Python that may import the copied toolchain."""
        return self._run(["-c", code], variables)

    def _run(self, arguments: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )


@pytest.fixture(autouse=True)
def no_tools_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine has: the tests play programs by taking the place of subprocess.run."""
    monkeypatch.setattr(environment, "find", lambda name: None)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with a project folder that holds one stack, and no program but the system's."""
    made = Machine(tmp_path / "project", tmp_path / "home", tmp_path / "bin", tmp_path / "calls")
    for folder in (made.home, made.bin, made.root / "stacks"):
        folder.mkdir(parents=True)
    skipped = shutil.ignore_patterns("*.pyc.*")  # what another process compiles at the moment
    for package in ("toolchain", "infra", "standins/pulumi_standins"):
        shutil.copytree(ROOT / package, made.root / package, ignore=skipped)
    for name in ("requirements.lock", "pyproject.toml", "Pulumi.yaml", ".gitattributes", ".gitignore"):
        shutil.copy2(ROOT / name, made.root / name)
    (made.root / "stacks" / "Pulumi.dev.yaml").write_text("config:\n  trainstack:job:\n    epochs: 1\n")
    return made


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process's per-user cache, in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "trainstack"


# What Pulumi does to a stack file when it selects or makes a stack, as far as we depend on it.
PULUMI = """
case "$2" in
init) echo "encryptionsalt: v1:salt-of:$(cat "$PULUMI_CONFIG_PASSPHRASE_FILE")" > "Pulumi.$4.yaml" ;;
esac
"""

PREPARE = """
from toolchain.operating import backend, environment
backend.prepare("dev", environment.for_stack({}, "dev"))
"""

STACK = """\
# A comment that stays.

config:
  trainstack:job:
      epochs: 1    # as it was written
"""


def git(folder: Path, *arguments: str) -> str:
    words = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout


def commit_all(folder: Path, message: str) -> str:
    """The new commit, with everything in `folder` that is not ignored."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD").strip()


@pytest.fixture
def project(machine: Machine) -> Machine:
    """A clone with a committed stack file."""
    (machine.root / "stacks" / "Pulumi.dev.yaml").write_text(STACK)
    machine.program("pulumi", PULUMI)
    git(machine.root, "init", "--quiet")
    commit_all(machine.root, "start")
    return machine


def prepare(project: Machine) -> str:
    done = project.python(PREPARE)
    assert done.returncode == 0, done.stderr
    return (project.root / "stacks" / "Pulumi.dev.yaml").read_text()
