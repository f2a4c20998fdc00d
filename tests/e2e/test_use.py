"""`make use`: an earlier run's model comes back by the stack file, and goes again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.e2e.test_over_runs import SEED, run_of

TOLD = ("timeline.json", "report.html")


@pytest.fixture
def restored(project: Project) -> Iterator[Project]:
    """The stack file is as it is committed afterwards."""
    yield project
    subprocess.run(["git", "checkout", "--quiet", "--", "stacks"], cwd=project.root, check=True)


def files(folder: Path) -> dict[str, bytes]:
    """What the trainer has left. The timeline, in the report as well, tells of later jobs that took the run, too."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in TOLD}


def timeline(folder: Path) -> list[list[str]]:
    return list(json.loads((folder / "timeline.json").read_text()))


def use(project: Project, run: str) -> dict[str, str]:
    done = project.make("use", f"RUN={run}")
    assert done.returncode == 0, done.stdout
    return project.up()


def test_an_earlier_run_comes_back_and_goes_again(restored: Project, up: dict[str, str]) -> None:
    project, latest = restored, restored.models / "mnist_cnn.pt"
    first, before, happened = run_of(up), files(run_of(up)), timeline(run_of(up))
    # Trained already where those tests have run.
    project.configure({"trainstack:job": {"args": ["--seed", SEED]}})
    other = project.up()
    second = run_of(other)
    assert latest.read_bytes() == files(second)["mnist_cnn.pt"] != before["mnist_cnn.pt"]

    back = use(project, first.name)
    assert run_of(back) == first
    assert latest.read_bytes() == before["mnist_cnn.pt"]
    assert (back["accuracy"], back["loss"]) == (up["accuracy"], up["loss"])
    assert ": epoch " not in back["output"]
    assert files(first) == before, "nothing is trained into the run"
    assert timeline(first)[: len(happened)] == happened

    again = use(project, "none")
    assert run_of(again) == second
    assert latest.read_bytes() == files(second)["mnist_cnn.pt"]
    assert again["accuracy"] == other["accuracy"]
