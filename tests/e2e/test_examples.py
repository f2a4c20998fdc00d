"""The projects below examples/: each one's stack comes up as it is committed, in a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import clones
from tests.e2e.project import Project
from tests.matrix.kind_project import UNCHANGED
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(reason="a cluster and an image for each example")


@pytest.fixture(scope="module")
def clone(engine: Engine) -> Iterator[Project]:
    with clones.temporary("examples") as made:
        yield made


@contextmanager
def standing(clone: Project, stack: str) -> Iterator[tuple[Project, dict[str, str]]]:
    """An example's stack in a cluster of the test's, and the closing lines of its `make up`; down at the end."""
    example = Project(clone.root, clone.cluster, stack)
    example.configure({"trainstack:cluster": {"name": clone.cluster}})
    try:
        yield example, example.up()
    finally:
        down = example.make("down")
    assert down.returncode == 0, down.stdout


def master(example: Project) -> dict[str, Any]:
    """The container of the job's first replica."""
    specs = example.get("pytorchjob", example.stack)["spec"]["pytorchReplicaSpecs"]
    return dict(specs["Master"]["template"]["spec"]["containers"][0])


def test_a_network_and_data_of_the_users_train_on_our_image(clone: Project) -> None:
    with standing(clone, "own-network") as (example, lines):
        assert float(lines["accuracy"]) >= 0.9
        assert Path(lines["model"]) == example.models / "mnist_cnn.pt"
        first = master(example)["image"]
        assert "@sha256:" in first
        assert UNCHANGED.search(example.up()["output"]), "the same project is the same image and the same run"
        network = clone.root / "examples" / "own-network" / "shapes.py"
        network.write_text(network.read_text().replace("(shape[0], 16, 32, 64)", "(shape[0], 8, 16, 32)"))
        smaller = example.models / "mnist_cnn.pt"
        before = smaller.stat().st_size
        example.up()
        assert master(example)["image"] != first
        assert smaller.stat().st_size < before, "the changed project was built and trained"


def test_a_script_and_an_image_of_the_users_need_nothing_of_ours(clone: Project) -> None:
    with standing(clone, "own-script") as (example, lines):
        assert float(lines["accuracy"]) >= 0.9, "read from what the script prints"
        assert float(lines["loss"]) < 0.5
        assert lines["model"] == "none"
        outputs = example.outputs()
        assert outputs["imageDigest"] == master(example)["image"].partition("@")[2]
        looked = example.run("docker", "inspect", "--format", "{{.Config.Entrypoint}}", built(example))
        assert looked.stdout.strip() == "[python3 /srv/train.py]"
        ours = ("run", "--rm", "--entrypoint", "python3", built(example), "-c", "import trainer")
        assert "No module named 'trainer'" in example.run("docker", *ours, check=False).stderr


def built(example: Project) -> str:
    """The name in the engine of the image that the stack has built."""
    script = (
        "from pathlib import Path; from infra import paths; from infra.config import from_file;"
        "from infra.image import inputs;"
        f"config = from_file(Path('stacks/Pulumi.{example.stack}.yaml')).image;"
        "print(f'{inputs.REPOSITORY}:{inputs.tag(config, paths.ROOT)}')"
    )
    return example.run("python", "-c", script).stdout.split()[-1]
