"""Plugins of a killed pulumi end with the next `make up`; no others do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from toolchain.machine.processes import Process
from toolchain.operating import stack_locks

# A pulumi that starts a plugin, which tells its process id and sleeps under the name of one. The plugin tells it
# itself: to its parent it is there a moment before the kernel shows its command line.
PULUMI = """
import subprocess, sys, time
told = "import os, time; print(os.getpid(), flush=True); time.sleep(300)"
subprocess.Popen([sys.executable, "-c", told, sys.argv[1], "127.0.0.1:1"], cwd=sys.argv[2])
time.sleep(300)
"""
PLUGINS = [
    "pulumi.dynamic",
    "pulumi_standins.kubernetes",
    "pulumi-resource-kubernetes",
    "pulumi-language-python",
]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone for this test alone: in a shared one, tests that run at the same time end each other's plugins."""
    root = tmp_path / "clone"
    (root / "infra").mkdir(parents=True)
    monkeypatch.setattr(stack_locks, "ROOT", root)
    return root


def start(plugin: str, folder: Path) -> tuple[subprocess.Popen[str], int]:
    words = [sys.executable, "-c", PULUMI, plugin, str(folder)]
    pulumi = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert pulumi.stdout
    return pulumi, int(pulumi.stdout.readline())


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_plugin_whose_pulumi_was_killed_is_ended(clone: Path, plugin: str) -> None:
    pulumi, pid = start(plugin, clone / "infra")
    pulumi.kill()
    pulumi.wait()
    try:
        assert pid in stack_locks.end_orphans()
        assert not is_alive(pid)
    finally:
        kill(pid)


@pytest.mark.parametrize(
    ("plugin", "folder", "killed"),
    [
        ("pulumi.dynamic", "clone/infra", False),
        ("pulumi.dynamic", "", True),
        ("something-else", "clone/infra", True),
    ],
    ids=["its pulumi lives", "of another clone", "no plugin"],
)
@pytest.mark.usefixtures("clone")
def test_any_other_process_is_left_alone(tmp_path: Path, plugin: str, folder: str, killed: bool) -> None:
    pulumi, pid = start(plugin, tmp_path / folder)
    try:
        if killed:
            pulumi.kill()
            pulumi.wait()
            time.sleep(0.1)
        assert pid not in stack_locks.end_orphans()
        assert is_alive(pid)
    finally:
        kill(pid)
        pulumi.kill()
        pulumi.wait()


def test_a_plugin_that_was_started_by_hand_is_left_alone() -> None:
    process = Process(10, 9, 5, os.geteuid(), False, "python3", "python3 -m pulumi.dynamic")
    assert not stack_locks.is_orphan(process, {9: 5, 10: 5})
    assert stack_locks.is_orphan(process, {9: 3, 10: 5}), "another process has taken the orphan"
    assert not stack_locks.is_orphan(replace(process, user=os.geteuid() + 1), {9: 3, 10: 5}), (
        "not this user's"
    )
