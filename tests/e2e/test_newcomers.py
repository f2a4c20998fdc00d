"""Three projects, each by somebody who had read the pages alone: they come up by the commands of own-project.md.

They are as they were handed in, but for the names of their folders.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import clones, pages
from tests.e2e.project import Project

pytestmark = pytest.mark.slow(reason="a cluster and an image for each project")
PROJECTS = Path(__file__).parent / "newcomers"
STACK_FILE = "Pulumi.*.yaml"


def commands(heading: str, stack: str, run: str = "") -> list[list[str]]:
    """The words after `make` in the page's commands below a heading, with the newcomer's stack and run in them."""
    (block,) = pages.of("own-project.md", heading, "console")
    named = block.replace("quarters", stack).replace("<run>", run)
    return [line.removeprefix("make ").split() for line in named.splitlines()]


@contextmanager
def handed_in(clone: Project, name: str) -> Iterator[Project]:
    """The stack of a project whose folder lies beside the clone; down at the end."""
    shutil.copytree(
        PROJECTS / name, clone.root.parent / name, ignore=shutil.ignore_patterns(STACK_FILE, "__pycache__")
    )
    stack = Project(clone.root, clone.cluster, name)
    shutil.copy(PROJECTS / name / f"Pulumi.{name}.yaml", stack.stack_file)
    stack.configure({"trainstack:cluster": {"name": clone.cluster}})
    with clones.taken_down(stack):
        yield stack


def comes_up(stack: Project, model: str) -> dict[str, Any]:
    """Bring it up, list its run, take that run again, all by the page; the run as `make runs` tells it."""
    up, runs = commands("A script for one GPU", stack.stack)
    lines = stack.up(*up[1:])
    assert lines["job"] == f"kubeflow/{stack.stack} Succeeded"
    assert float(lines["accuracy"]) >= 0.9, lines["output"]
    top = stack.models / model
    assert Path(lines["model"]) == top
    listed = stack.make(*runs)
    assert f"{float(lines['accuracy']):.4f}" in listed.stdout, listed.stdout
    (run,) = json.loads(stack.make("-s", *runs, "ARGS=--json").stdout)
    assert (run["outcome"], run["finished"], run["current"]) == ("Succeeded", True, True)
    trained = stack.models / "runs" / run["run"] / model
    assert top.read_bytes() == trained.read_bytes()

    top.write_bytes(b"a newer model")
    use, again = commands("What a program leaves", stack.stack, run["run"])
    used = stack.make(*use)
    assert used.returncode == 0, used.stdout
    back = stack.up(*again[1:])
    assert top.read_bytes() == trained.read_bytes()
    assert back["accuracy"] == lines["accuracy"]
    return dict(run)


def test_a_loop_for_one_gpu_keeps_its_loop(clone: Project) -> None:
    with handed_in(clone, "sorter") as stack:
        run = comes_up(stack, "digit_sorter.pth")
    assert run["results"]["whole_rows"] > 0


def test_torchrun_starts_two_processes_in_each_of_two_pods(clone: Project) -> None:
    with handed_in(clone, "spirals") as stack:
        run = comes_up(stack, "spirals.pt")
    assert run["results"]["test_acc"] >= 0.9
    assert run["config"]["world_size"] == 4


def test_a_trainer_of_ones_own_reads_a_folder_and_shows_bars(clone: Project) -> None:
    data = clone.root.parent / "leaves-data"
    subprocess.run([sys.executable, PROJECTS / "leaves" / "make_data.py", data], check=True)
    with handed_in(clone, "leaves") as stack:
        run = comes_up(stack, "leafnet.pt")
    assert run["results"]["val_acc"] >= 0.9
