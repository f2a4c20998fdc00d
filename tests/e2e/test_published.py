"""Published manifests, applied by hand with only the image changed, run against our trainer image."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import project as projects
from tests.e2e.project import Project

pytestmark = pytest.mark.slow
MANIFESTS = Path(__file__).parent / "published"
TRAIN_S = 420


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    clone = projects.clone(tmp_path_factory.mktemp("published") / "trainstack", f"e2e-{uuid.uuid4().hex[:6]}")
    try:
        clone.up()
        yield clone
    finally:
        clone.make("down")


@pytest.fixture(scope="module")
def gpus(project: Project) -> None:
    """Three GPUs that only the scheduler believes in: what is published asks for one a replica."""
    patch = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "3"}]
    node = f"{project.cluster}-control-plane"
    project.run(
        "kubectl", "patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(patch)
    )
    for _ in range(60):
        if project.get("node", node)["status"]["allocatable"].get("nvidia.com/gpu") == "3":
            return
        time.sleep(1)
    raise AssertionError("the kubelet did not take up the capacity")


def built(project: Project, preset: str) -> str:
    """The trainer image with another preset, in the cluster's registry; how the nodes pull it."""
    script = (
        "import sys; from infra import places; from infra.config.image import ImageConfig;"
        "from infra.image import inputs, push; name, preset = sys.argv[1:];"
        "build = inputs.build(ImageConfig(preset=preset), places.ROOT);"
        "image = f'{inputs.REPOSITORY}:{build.tag}';"
        "push.build(places.ROOT, 'cpu', build.arguments, image);"
        "digest = push.to_registry(image, name, inputs.REPOSITORY, build.tag);"
        "print(f'{name}:5000/{inputs.REPOSITORY}@{digest}')"
    )
    name = f"{project.cluster}-registry"
    return project.run("python", "-c", script, name, preset).stdout.split()[-1]


@pytest.mark.parametrize(
    ("manifest", "preset", "job"),
    [
        ("pytorch-simple", "pytorch-simple", "published-simple"),
        ("traindb", "traindb", "published-traindb"),
        ("convnet", "convnet", "published-convnet"),
    ],
)
@pytest.mark.usefixtures("gpus")
def test_succeeds_by_hand(project: Project, tmp_path: Path, manifest: str, preset: str, job: str) -> None:
    text = (MANIFESTS / f"{manifest}.yaml").read_text().replace("IMAGE", built(project, preset))
    file = tmp_path / "manifest.yaml"
    file.write_text(text)
    try:
        project.run("kubectl", "apply", "--filename", str(file))
        wait = [f"pytorchjob/{job}", "--namespace", "kubeflow", f"--timeout={TRAIN_S}s"]
        project.run("kubectl", "wait", "--for=condition=Succeeded", *wait)
        log = project.run("kubectl", "logs", f"{job}-master-0", "--namespace", "kubeflow").stdout
        assert re.search(r"^accuracy=0\.\d+$", log, re.MULTILINE), log
        assert re.search(r"^loss=\d+\.\d+$", log, re.MULTILINE), log
    finally:
        project.run("kubectl", "delete", "--ignore-not-found", "--filename", str(file))
