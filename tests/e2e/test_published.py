"""Published manifests, applied by hand with only the image changed, run against our trainer image.

The one over NCCL cannot succeed without a GPU: it has to schedule, and to say what is missing.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import project as projects
from tests.e2e.project import Project

pytestmark = pytest.mark.slow
MANIFESTS = Path(__file__).parent / "published"
TRAIN_S = 420
SAY_S = 120


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
        "import sys; from infra import paths; from infra.config.image import ImageConfig;"
        "from infra.image import inputs, push; name, preset = sys.argv[1:];"
        "build = inputs.build(ImageConfig(preset=preset), paths.ROOT);"
        "image = f'{inputs.REPOSITORY}:{build.tag}';"
        "push.build(paths.ROOT, 'cpu', build.arguments, image);"
        "digest = push.to_registry(image, name, inputs.REPOSITORY, build.tag);"
        "print(f'{name}:5000/{inputs.REPOSITORY}@{digest}')"
    )
    name = f"{project.cluster}-registry"
    return project.run("python", "-c", script, name, preset).stdout.split()[-1]


@contextmanager
def applied(project: Project, folder: Path, manifest: str, preset: str) -> Iterator[None]:
    """A published manifest by hand, with nothing but its image changed; taken away at the end."""
    text = (MANIFESTS / f"{manifest}.yaml").read_text().replace("IMAGE", built(project, preset))
    file = folder / "manifest.yaml"
    file.write_text(text)
    try:
        project.run("kubectl", "apply", "--filename", str(file))
        yield
    finally:
        project.run("kubectl", "delete", "--ignore-not-found", "--filename", str(file))


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
    with applied(project, tmp_path, manifest, preset):
        wait = [f"pytorchjob/{job}", "--namespace", "kubeflow", f"--timeout={TRAIN_S}s"]
        project.run("kubectl", "wait", "--for=condition=Succeeded", *wait)
        log = project.run("kubectl", "logs", f"{job}-master-0", "--namespace", "kubeflow").stdout
        assert re.search(r"^accuracy=0\.\d+$", log, re.MULTILINE), log
        assert re.search(r"^loss=\d+\.\d+$", log, re.MULTILINE), log


@pytest.mark.usefixtures("gpus")
def test_the_nccl_one_schedules_and_says_that_cuda_is_missing(project: Project, tmp_path: Path) -> None:
    with applied(project, tmp_path, "nccl", "nccl"):
        log = said(project, "published-nccl-master-0", "needs a GPU")
        assert "--backend nccl needs a GPU in every replica and this one has none" in log
        for replica in ("master", "worker"):
            pod = project.get("pod", f"published-nccl-{replica}-0")
            assert scheduled(pod) == "True", f"{replica}: {pod['status']}"
            assert pod["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"


def said(project: Project, pod: str, word: str) -> str:
    """The log of `pod` once `word` is in it; its last one after SAY_S seconds."""
    log = ""
    deadline = time.monotonic() + SAY_S
    while word not in log and time.monotonic() < deadline:
        time.sleep(1)
        asked = project.run("kubectl", "logs", pod, "--namespace", "kubeflow", check=False)
        log = asked.stdout + asked.stderr
    return log


def scheduled(pod: dict[str, Any]) -> str:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return str(conditions.get("PodScheduled"))
