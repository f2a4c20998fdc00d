"""docs/own-project.md as a stranger follows it: nothing but its own blocks, in the order in which they stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.objects.labels import RUN
from tests.e2e import clones
from tests.e2e.images import built
from tests.e2e.project import ROOT, Project
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(reason="a cluster of its own, two images, four trainings")
BLOCK = re.compile(r"^```(?:python|yaml|dockerfile)\n(.*?)^```", re.DOTALL | re.MULTILINE)
STACK = "quarters"
LINES = 30
"""The most that the user's network and data may take."""


@pytest.fixture(scope="module")
def blocks() -> dict[str, str]:
    """The page's files, each with the name that its first line or the page gives it."""
    found = BLOCK.findall((ROOT / "docs" / "own-project.md").read_text())
    names = ("one.py", "quarters.py", "network.yaml", "train.py", "script.yaml", "torchrun.yaml")
    return dict(zip((*names, "Dockerfile", "image.yaml"), found, strict=True))


@pytest.fixture(scope="module")
def quarters(engine: Engine, blocks: dict[str, str]) -> Iterator[Project]:
    """A stack that has no file yet, and the user's folder beside its clone."""
    with clones.temporary("own-project") as clone:
        folder = clone.root.parent / "my-project"
        folder.mkdir()
        for name in ("quarters.py", "train.py", "Dockerfile"):
            (folder / name).write_text(blocks[name])
        (folder / "train_ddp.py").write_text(
            f'import os\n\nint(os.environ["LOCAL_RANK"])\n{blocks["train.py"]}'
        )
        project = Project(clone.root, clone.cluster, STACK)
        try:
            yield project
        finally:
            project.make("down")


def taken(quarters: Project, stack_file: str) -> dict[str, str]:
    """The closing lines of `make up` with the page's stack file, in the test's cluster."""
    quarters.stack_file.write_text(stack_file)
    quarters.configure({"trainstack:cluster": {"name": quarters.cluster}})
    lines = quarters.up()
    assert float(lines["accuracy"]) >= 0.9, "a quarter by chance"
    replicas = quarters.get("pytorchjob", STACK)["spec"]["pytorchReplicaSpecs"]
    assert sorted(replicas) == ["Master", "Worker"]
    return lines


def test_the_files_are_called_as_they_say(blocks: dict[str, str]) -> None:
    assert [blocks[name].splitlines()[0] for name in ("one.py", "quarters.py", "train.py")] == [
        "# one.py",
        "# quarters.py",
        "# train.py",
    ]


def test_a_network_of_thirty_lines_trains_on_two_replicas(quarters: Project, blocks: dict[str, str]) -> None:
    assert len(blocks["quarters.py"].splitlines()) <= LINES
    assert Path(taken(quarters, blocks["network.yaml"])["model"]) == quarters.models / "mnist_cnn.pt"


def test_the_script_keeps_its_loop(quarters: Project, blocks: dict[str, str]) -> None:
    assert Path(taken(quarters, blocks["script.yaml"])["model"]) == quarters.models / "quarters.pt"


def test_a_script_for_torchrun_runs_by_it(quarters: Project, blocks: dict[str, str]) -> None:
    assert Path(taken(quarters, blocks["torchrun.yaml"])["model"]) == quarters.models / "quarters.pt"


def test_a_run_of_the_script_is_taken_again_without_its_program(
    quarters: Project, blocks: dict[str, str]
) -> None:
    trained = taken(quarters, blocks["script.yaml"])
    run = quarters.get("pytorchjob", STACK)["metadata"]["labels"][RUN]
    own, latest = quarters.models / "runs" / run / "quarters.pt", quarters.models / "quarters.pt"
    before = own.stat().st_mtime_ns
    latest.write_bytes(b"another model")
    done = quarters.make("use", f"RUN={run}")
    assert done.returncode == 0, done.stdout
    lines = quarters.up()
    assert latest.read_bytes() == own.read_bytes()
    assert own.stat().st_mtime_ns == before, "nothing was trained"
    assert lines["accuracy"] == trained["accuracy"]


def test_the_script_comes_in_an_image_of_its_own(quarters: Project, blocks: dict[str, str]) -> None:
    assert Path(taken(quarters, blocks["image.yaml"])["model"]) == quarters.models / "quarters.pt"


def test_the_program_for_one_processor_runs_as_it_stands(quarters: Project, blocks: dict[str, str]) -> None:
    """In the image that the page's Dockerfile made: it has torch."""
    program = quarters.root.parent / "one.py"  # in the project's folder it would be part of the image
    program.write_text(blocks["one.py"])
    run = f"docker run --rm --interactive --workdir /tmp --entrypoint python3 {built(quarters)} - < {program}"
    printed = re.findall(r"^accuracy=(.*)$", quarters.run("bash", "-c", run).stdout, re.MULTILINE)
    assert [float(each) >= 0.9 for each in printed] == [True], printed
