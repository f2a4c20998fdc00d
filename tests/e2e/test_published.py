"""Published manifests, applied by hand with only the image changed, run against our trainer image.

The one over NCCL cannot succeed without a GPU: it has to schedule, and to say what is missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import Project
from tests.e2e.waiting import HANG_S, wait_until

pytestmark = pytest.mark.slow(reason="whole trainings with the published epochs")
MANIFESTS = Path(__file__).parent / "published"


@pytest.fixture(scope="module")
def gpus(project: Project, up: dict[str, str]) -> None:
    """Three GPUs that only the scheduler believes in: what is published asks for one a replica."""
    patch = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "3"}]
    node = f"{project.cluster}-control-plane"
    project.run(
        "kubectl", "patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(patch)
    )

    def allocatable() -> bool:
        offered = project.get("node", node)["status"]["allocatable"]
        return bool(offered.get("nvidia.com/gpu") == "3")

    wait_until("the kubelet takes up the capacity", allocatable)


def built(project: Project, preset: str) -> str:
    """The trainer image with another preset, in the cluster's registry; how the nodes pull it."""
    script = (
        "import sys; from infra import paths; from infra.config.image import ImageConfig;"
        "from infra.image import inputs, providers, push; name, preset = sys.argv[1:];"
        "build = inputs.build(ImageConfig(preset=preset), paths.ROOT);"
        "props = {'target': 'cpu', 'arguments': build.arguments, 'tag': build.tag};"
        "image = providers.BuiltImageProvider().create(props).outs['image'];"
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
        wait = [f"pytorchjob/{job}", "--namespace", "kubeflow", f"--timeout={HANG_S:.0f}s"]
        project.run("kubectl", "wait", "--for=condition=Succeeded", *wait, timeout=2 * HANG_S)
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
    """The log of `pod` once `word` is in it."""
    logs: list[str] = []

    def has_said() -> bool:
        asked = project.run("kubectl", "logs", pod, "--namespace", "kubeflow", check=False)
        logs.append(asked.stdout + asked.stderr)
        return word in logs[-1]

    wait_until(f"pod {pod} says {word!r}", has_said)
    return logs[-1]


def scheduled(pod: dict[str, Any]) -> str:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return str(conditions.get("PodScheduled"))
