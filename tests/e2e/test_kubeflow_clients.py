"""docs/kubeflow-clients.md as it stands: Kubeflow's own clients from PyPI against the operators of a stack."""

from __future__ import annotations

import re
import sys

import pytest

from tests.e2e.project import ROOT, Project
from tests.matrix.kind_project import UNCHANGED

pytestmark = pytest.mark.slow(reason="a cluster of its own, both operators, two trainings of the stack's")
PAGE = (ROOT / "docs" / "kubeflow-clients.md").read_text()
COMMAND = re.compile(r"^uv run (.*--with (\S+)==\S+) submit\.py$", re.MULTILINE)
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
TRAINED = r"rank 0 of 2: loss=0\.0"


def printed(project: Project, package: str) -> str:
    """What the page's program for that package prints."""
    options = {found[2]: found[1].split() for found in COMMAND.finditer(PAGE)}
    programs = dict(zip(options, PROGRAMS, strict=True))
    file = project.root.parent / "submit.py"
    file.write_text(programs[package])
    return project.run("uv", "run", "--python", sys.executable, *options[package], str(file)).stdout


def of_others(project: Project, kind: str, name: str) -> list[str]:
    """The jobs of `kind` that the stack has not made."""
    listed = project.run("kubectl", "get", kind, "--namespace", "kubeflow", "--output", "name").stdout
    return [each for each in listed.split() if not each.endswith(f"/{name}")]


def test_the_client_of_pytorchjobs_trains_beside_the_stack(clone: Project) -> None:
    job = clone.up()["job"].split("/")[1].split()[0]
    assert re.search(TRAINED, printed(clone, "kubeflow-training"))
    assert of_others(clone, "pytorchjobs", job) == []
    assert UNCHANGED.search(clone.up()["output"])


def test_the_client_of_trainjobs_trains_on_the_stacks_runtime(clone: Project) -> None:
    clone.configure({"trainstack:operator": {"api": "v2"}, "trainstack:job": {"readOnlyRoot": False}})
    job = clone.up()["job"].split("/")[1].split()[0]
    said = printed(clone, "kubeflow")
    assert f"runtimes: {job}\n" in said
    assert re.search(TRAINED, said), said
    assert of_others(clone, "trainjobs", job) == []
    assert UNCHANGED.search(clone.up()["output"])
