"""Where nobody shares the volume's folder with this machine, all that a run has left is brought here."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.e2e.beside import stack_beside
from tests.e2e.images import pulled
from tests.e2e.project import Project

pytestmark = pytest.mark.slow(
    reason="one more stack with a training; `make test` brings files here in the unit tests"
)

FOLDER = "/var/lib/trainstack/beside"
WRITTEN_HERE = {"README.md", "origin.json"}
COMPLETED_HERE = "report.html"
"""With what only `make up` knows: the commit, and the times of job and pods."""
REPORTS = {"mnist_cnn.pt", "metrics.jsonl", "config.json", "report.html"}


def sums(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def on_node(project: Project, folder: str) -> dict[str, str]:
    """File's name -> SHA-256, of the files in a folder of the node."""
    listed = (
        "docker",
        "exec",
        f"{project.cluster}-control-plane",
        "sh",
        "-c",
        f"cd {folder} && sha256sum -- * .[!.]*",
    )
    pairs = (line.split(maxsplit=1) for line in project.run(*listed, check=False).stdout.splitlines())
    return {name: checksum for checksum, name in pairs}


def test_the_whole_run_folder_is_brought_here(project: Project, up: dict[str, str]) -> None:
    storage = {"hostPath": FOLDER}
    with stack_beside(project, "beside", pulled(project), {"name": "beside"}, storage) as beside:
        lines = beside.up()
        (run,) = (beside.models / "runs").iterdir()
        there = on_node(project, f"{FOLDER}/runs/{run.name}")
        assert f"report: {run / 'report.html'}" in lines["output"]
        assert Path(lines["model"]) == beside.models / "mnist_cnn.pt"
    assert there.keys() >= REPORTS
    here = sums(run)
    assert here.keys() - there.keys() == WRITTEN_HERE
    assert {name for name in there if here[name] != there[name]} == {COMPLETED_HERE}
    assert hashlib.sha256((beside.models / "mnist_cnn.pt").read_bytes()).hexdigest() == there["mnist_cnn.pt"]
