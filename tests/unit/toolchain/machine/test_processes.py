"""Processes by /proc, and by a ps that prints as that of macOS does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.conftest import Fake
from toolchain.machine import processes
from toolchain.machine.processes import Process

# ps of macOS 14: columns as wide as their widest value, `ucomm` cut at 16 letters, no session.
STATES = """\
    1     0     0 Ss   launchd
  812     1   501 S    pulumi
  813   812   501 Z    (pulumi)
  901     1   501 S+   Google Chrome He
"""
COMMANDS = """\
    1 /sbin/launchd
  812 /opt/homebrew/bin/pulumi up --yes
  813 (pulumi)
  901 /Applications/Google Chrome.app/Contents/Google Chrome Helper --type=gpu
"""
VARIABLES = "/opt/homebrew/bin/pulumi up --yes PATH=/usr/bin:/bin TRAINSTACK_PARENT=700 HOME=/Users/me"
PS = f"""
case "$*" in
*ucomm=*) table='{STATES}' ;;
eww*) echo '{VARIABLES}'; exit ;;
*) table='{COMMANDS}' ;;
esac
case "$*" in
*-A*) printf %s "$table" ;;
*) for wanted in "$@"; do case "$wanted" in [0-9]*) break ;; esac; done; printf %s "$table" | grep "^ *$wanted " ;;
esac
"""
LSOF = "printf 'p812\\nfcwd\\nn/Users/me/train stack\\n'"
PULUMI = Process(812, 1, 0, 501, False, "pulumi", "/opt/homebrew/bin/pulumi up --yes")


@pytest.fixture
def mac(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(processes, "PROC", tmp_path / "no-proc")
    fake("ps", PS)
    fake("lsof", LSOF)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    variables = {**os.environ, "TRAINSTACK_PARENT": "700"}
    words = [sys.executable, "-c", "import time; print(flush=True); time.sleep(300)"]
    started = subprocess.Popen(words, cwd="/", env=variables, stdout=subprocess.PIPE, start_new_session=True)
    assert started.stdout
    started.stdout.readline()
    yield started
    started.kill()
    started.wait()


@pytest.mark.usefixtures("mac")
def test_ps_tells_of_a_process() -> None:
    assert processes.find(812) == PULUMI
    assert processes.find(814) is None
    ended = processes.find(813)
    assert ended is not None
    assert ended.ended


@pytest.mark.usefixtures("mac")
def test_ps_tells_of_every_process() -> None:
    found = {each.pid: each for each in processes.every()}
    assert found.keys() == {1, 812, 813, 901}
    assert found[812] == PULUMI
    assert found[901].name == "Google Chrome He"


@pytest.mark.usefixtures("mac")
def test_what_a_process_was_started_with_and_where_it_works() -> None:
    assert processes.variable(812, "TRAINSTACK_PARENT") == "700"
    assert processes.variable(812, "PARENT") is None
    assert processes.folder(812) == Path("/Users/me/train stack")


@pytest.mark.usefixtures("mac")
def test_no_kernel_but_linuxs_ends_a_process_with_its_parent() -> None:
    processes.end_with_parent(signal.SIGKILL)


def test_without_ps_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A lock whose process cannot be looked up would else be taken for a dead one's."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError):
        processes.find(os.getpid())


def test_proc_tells_of_a_process(child: subprocess.Popen[bytes]) -> None:
    found = processes.find(child.pid)
    assert found is not None
    assert (found.parent, found.session, found.user) == (os.getpid(), child.pid, os.geteuid())
    assert found.command.startswith(f"{sys.executable} -c import time;")
    assert found in processes.every()
    assert processes.variable(child.pid, "TRAINSTACK_PARENT") == "700"
    assert processes.variable(child.pid, "PARENT") is None
    assert processes.folder(child.pid) == Path("/")


def test_proc_tells_of_an_ended_process(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    assert child.stdout
    child.stdout.read()  # its end comes a moment after the kill
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    found = processes.find(child.pid)
    assert found is not None
    assert found.ended
    child.wait()
    assert processes.find(child.pid) is None
