"""docs/own-project.md as a stranger follows it: nothing but its own blocks, in the order in which they stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import clones, pages
from tests.e2e.project import Project
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(reason="a cluster of its own, two images, five trainings")
STACK = "quarters"
FIT = "A project with a Trainer of its own"
PODS = {
    "A script for one GPU": 1,
    "A script for torchrun": 2,
    FIT: 1,
    "A network and data": 2,
    "A Dockerfile": 2,
}
"""Heading of each program -> replicas of its job."""
LINES = 30
"""The most that the user's network and data may take."""


def of(heading: str, language: str) -> list[str]:
    return pages.of("own-project.md", heading, language)


def programs() -> dict[str, str]:
    """The page's Python files, by the names in their first lines."""
    found = [text for heading in ["", *PODS] for text in of(heading, "python")]
    return {text.partition("\n")[0].removeprefix("# "): text for text in found}


@pytest.fixture(scope="module")
def quarters(engine: Engine) -> Iterator[Project]:
    """A stack that has no file yet, and the user's folder beside its clone."""
    with clones.temporary("own-project") as clone:
        folder = clone.root.parent / "my-project"
        folder.mkdir()
        (dockerfile,), (requirements,) = of("A Dockerfile", "dockerfile"), of(FIT, "text")
        files = {**programs(), "Dockerfile": dockerfile, "requirements.txt": requirements}
        for name, text in files.items():
            (folder / name).write_text(text)
        with clones.standing(Project(clone.root, clone.cluster, STACK)) as project:
            yield project


def test_the_files_are_called_as_they_say() -> None:
    assert [*programs()] == ["quarters.py", "one.py", "train_ddp.py", "fit.py"]
    assert len(programs()["quarters.py"].splitlines()) <= LINES


@pytest.mark.parametrize(("heading", "pods"), PODS.items())
def test_each_program_comes_up(quarters: Project, heading: str, pods: int) -> None:
    (stack_file,) = of(heading, "yaml")
    quarters.stack_file.write_text(stack_file)
    quarters.configure({"trainstack:cluster": {"name": quarters.cluster}})
    lines = quarters.up()
    assert float(lines["accuracy"]) >= 0.9, "a quarter by chance"
    model = re.findall(r"model: (\S+)", stack_file) or ["mnist_cnn.pt"]
    assert Path(lines["model"]) == quarters.models / model[0]
    replicas = quarters.get("pytorchjob", STACK)["spec"]["pytorchReplicaSpecs"]
    assert sum(each["replicas"] for each in replicas.values()) == pods
