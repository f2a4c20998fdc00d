"""`make down`: the last word on the shared clone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.e2e import processes
from tests.e2e.project import Project


def test_down_leaves_the_model_and_nothing_else(project: Project, up: dict[str, str]) -> None:
    environment = project.environment()
    done = project.make("down")
    assert done.returncode == 0, done.stdout

    assert (project.models / "mnist_cnn.pt").is_file()
    mounts = Path("/proc/mounts").read_text()
    assert str(project.root) not in mounts
    assert not processes.working_in(project.root)
    left = subprocess.run(
        ["docker", "ps", "--all", "--quiet", "--filter", f"name={project.cluster}"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert left.stdout == ""
