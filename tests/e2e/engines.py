"""A second container engine beside the one that the tests use."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e import processes
from tests.e2e.project import ROOT
from tests.e2e.waiting import wait_until

# In namespaces of its own: its bridge and its rules for packets would meet those of the first one.
START = """
mount --make-rprivate /
ip link set lo up
cd {root} && python3 -c 'from toolchain.machine.engine import daemon; daemon.start()' && exec sleep infinity
"""


@contextmanager
def another() -> Iterator[str]:
    """What DOCKER_HOST is for it, as long as the block lasts; then it goes, with all that it holds."""
    # A short path: those of sockets below it hold at most 108 characters.
    with tempfile.TemporaryDirectory(prefix="ts-", ignore_cleanup_errors=True) as folder:
        host = f"unix://{folder}/run/docker.sock"
        namespaces = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc"]
        command = [*namespaces, "env", f"TRAINSTACK_MACHINE={folder}", "bash", "-c", START.format(root=ROOT)]
        log = Path(folder) / "started.log"
        with log.open("wb") as output:
            started = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

        def answers() -> bool:
            assert started.poll() is None, log.read_text()
            return subprocess.run(["docker", "--host", host, "version"], capture_output=True).returncode == 0

        try:
            wait_until("the other engine answers", answers)
            yield host
        finally:
            processes.kill(started)
