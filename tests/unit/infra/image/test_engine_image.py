"""`python -m infra.image.engine_image`: the process that builds a stack's image beside the tools."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from infra import paths
from tests.unit.conftest import Fake

# Has no image, and builds without end.
DOCKER = """
case "$1" in
image|images) exit 1 ;;
build) echo $$ > {file}.part; mv {file}.part {file}; exec sleep 3600 ;;
esac
"""


def test_an_ended_process_leaves_no_build_behind(fake: Fake, tmp_path: Path) -> None:
    fake("docker", DOCKER.format(file=tmp_path / "building"))
    child = subprocess.Popen([sys.executable, "-m", "infra.image.engine_image", "dev"], cwd=paths.ROOT)
    try:
        while not (tmp_path / "building").exists():
            assert child.poll() is None, "it has ended before its build"
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        assert child.wait() == 128 + signal.SIGTERM
    finally:
        child.kill()
    assert not Path("/proc", (tmp_path / "building").read_text().strip()).exists()
