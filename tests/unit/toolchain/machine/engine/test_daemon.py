"""Stopping our dockerd where nobody reaps it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolchain.machine.engine import daemon


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
