"""The server that the other tests use leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from standins.tests.project import ROOT

pytestmark = pytest.mark.apiserver

PROGRAM = """
import sys
from pathlib import Path
from standins.tests.apiserver import ApiServer
server = ApiServer(Path(sys.argv[1]))
server._start_etcd()
print(server._processes[0].pid, flush=True)
sys.stdin.read()
"""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_killed_test_run_leaves_no_server(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        assert is_running(pid)
        running.kill()
    until = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(pid)
