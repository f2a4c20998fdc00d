"""Starting our dockerd, of each version that Debian has, and stopping it where nobody reaps it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from toolchain.machine.engine import daemon, network
from toolchain.steps import SetupError

# What `dockerd --version` prints -> whether it takes an OOM score of its own from its configuration.
VERSIONS = {
    "Docker version 20.10.24+dfsg1, build 5d6db84": True,
    "Docker version 24.0.9, build fca702d": True,
    "Docker version 26.1.5+dfsg1, build 411e817": False,
}


@pytest.fixture
def dockerd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `dockerd` that ends at once, on a host whose root lacks a capability; its version is in the file `version`."""
    program = tmp_path / "bin" / "dockerd"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\n[ \"$1\" = --version ] && exec cat '{tmp_path}/version'\necho no such directive\nexit 1\n"
    )
    program.chmod(0o755)
    (tmp_path / "version").write_text(f"{next(iter(VERSIONS))}\n")
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    for name in ("HOME", "RUN", "DATA", "CONFIG", "LOG", "SOCKET", "PIDFILE"):
        monkeypatch.setattr(daemon, name, tmp_path / name.lower())
    monkeypatch.setattr(network, "save_settings", lambda path: None)
    monkeypatch.setattr(daemon, "is_restricted", lambda: True)
    monkeypatch.setattr(daemon, "install_runtime", lambda: None)
    return tmp_path


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_gets_a_configuration_that_it_takes(dockerd: Path, version: str) -> None:
    (dockerd / "version").write_text(f"{version}\n")
    with pytest.raises(SetupError):  # this one ends
        daemon.start()
    assert ("oom-score-adjust" in json.loads(daemon.CONFIG.read_text())) is VERSIONS[version]


def test_a_dockerd_that_ends_is_told_at_once_with_its_own_words(dockerd: Path) -> None:
    with pytest.raises(SetupError) as failure:
        daemon.start()
    assert failure.value.what == "dockerd has ended\n  | no such directive"


def test_a_dockerd_without_a_version_is_told(dockerd: Path) -> None:
    (dockerd / "version").write_text("")
    with pytest.raises(SetupError, match="dockerd reports no version"):
        daemon.start()


def test_an_engine_that_ended_unreaped_counts_as_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever started dockerd may still run and not have waited for it: its process number stays taken."""
    engine = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()", str(daemon.CONFIG)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert engine.stdout
    engine.stdout.readline()  # it runs: before, it has no command line yet
    monkeypatch.setattr(daemon, "PIDFILE", tmp_path / "docker.pid")
    monkeypatch.setattr(daemon, "RUN", tmp_path / "run")
    monkeypatch.setattr(daemon, "STOP_S", 5)
    daemon.PIDFILE.write_text(str(engine.pid))
    assert daemon.pid() == engine.pid

    daemon.stop()

    assert Path(f"/proc/{engine.pid}").exists(), "not reaped yet, or this test shows nothing"
    assert daemon.pid() is None
    assert engine.wait() < 0
