"""Stacks beside `dev`, on one kind cluster of three nodes.

Replicas on several nodes, a cluster that is there, GPUs that are made up, manifests applied without Pulumi.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.clusters.kind.config import MODELS
from tests.e2e import clones
from tests.e2e.beside import stack_beside
from tests.e2e.images import pulled
from tests.e2e.project import Project
from tests.e2e.rendering import ensure_applied
from tests.e2e.waiting import HANG_S, wait_until
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(reason="a cluster of three nodes beside the shared one")
OPERATOR = "training-operator"
GPU_PATCH = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "1"}]


@pytest.fixture(scope="module")
def project(engine: Engine) -> Iterator[Project]:
    with clones.temporary("e2e") as clone:
        clone.configure({"trainstack:cluster": {"workers": 2}})
        yield clone


@pytest.fixture(scope="module")
def up(project: Project) -> dict[str, str]:
    return project.up()


@pytest.fixture(scope="module")
def image(project: Project, up: dict[str, str]) -> str:
    return pulled(project)


def identity(project: Project, kind: str, name: str) -> tuple[str, int, dict[str, str]]:
    """What changes when somebody touches an object."""
    metadata = project.get(kind, name)["metadata"]
    return metadata["uid"], metadata.get("generation", 0), metadata.get("labels", {})


def test_replicas_spread_over_nodes_and_leave_one_model(project: Project, up: dict[str, str]) -> None:
    pods = project.get("pods")["items"]
    nodes = {
        pod["spec"]["nodeName"]
        for pod in pods
        if pod["metadata"]["labels"].get("job-name") == "pytorch-simple"
    }
    assert len(nodes) == 2, "Master and Worker are on nodes of their own"
    assert (project.models / "mnist_cnn.pt").stat().st_size > 1_000_000
    assert Path(up["model"]) == project.models / "mnist_cnn.pt"


def assert_another_clone_changes_nothing(beside: Project) -> None:
    """A clone in another folder, with the same state, has nothing to do but to bring the model here."""
    root = beside.root.parent / "another" / "trainstack"
    another = Project(clones.clone(root, beside.cluster).root, beside.cluster, beside.stack)
    shutil.copy2(beside.stack_file, another.stack_file)
    (root / ".trainstack").mkdir(exist_ok=True)
    for name in ("state", "passphrase"):
        source, copy = beside.root / ".trainstack" / name, root / ".trainstack" / name
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy2(source, copy)
    job = identity(beside, "pytorchjob", "beside")
    previewed = another.make("drift")
    assert previewed.returncode == 0, previewed.stdout
    assert Path(another.up()["model"]) == another.models / "mnist_cnn.pt"
    assert identity(beside, "pytorchjob", "beside") == job


def test_a_stack_uses_an_operator_that_was_there_and_leaves_it(
    project: Project, image: str, tmp_path: Path
) -> None:
    planted = [("namespace", "kubeflow"), ("crd", "pytorchjobs.kubeflow.org"), ("deployment", OPERATOR)]
    before = [identity(project, *each) for each in planted]
    with stack_beside(project, "beside", image, {"name": "beside"}) as beside:
        lines = beside.up()
        model = beside.models / "mnist_cnn.pt"
        assert Path(lines["model"]) == model
        assert model.stat().st_size > 1_000_000, "copied from the volume through a reader pod"
        (run,) = (beside.models / "runs").iterdir()
        assert {"mnist_cnn.pt", "metrics.jsonl", "config.json", "report.html"} <= {
            file.name for file in run.iterdir()
        }
        assert f"report: {run / 'report.html'}" in lines["output"]
        ensure_applied(beside, tmp_path)
        assert not [pod for pod in project.get("pods")["items"] if "reader" in pod["metadata"]["name"]]
        assert_another_clone_changes_nothing(beside)
    assert [identity(project, *each) for each in planted] == before
    assert model.is_file(), "the model outlives its stack"
    gone = project.run("kubectl", "get", "pv", "trainstack-beside-models", check=False)
    assert "NotFound" in gone.stderr


@pytest.fixture(scope="module")
def made_up_gpus(project: Project, up: dict[str, str]) -> None:
    """One GPU on each worker, which only the scheduler believes in."""
    nodes = [f"{project.cluster}-worker", f"{project.cluster}-worker2"]
    for node in nodes:
        patch = ["--subresource=status", "--type=json", "--patch", json.dumps(GPU_PATCH)]
        project.run("kubectl", "patch", "node", node, *patch)

    def allocatable() -> bool:
        found = [project.get("node", node)["status"]["allocatable"] for node in nodes]
        return all(each.get("nvidia.com/gpu") == "1" for each in found)

    wait_until("the kubelets take up the capacity", allocatable)


@pytest.mark.usefixtures("made_up_gpus")
def test_gpu_pods_schedule_and_the_trainer_says_that_cuda_is_missing(project: Project, image: str) -> None:
    job = {
        "name": "gpus",
        "training": {"dataset": "digits", "epochs": 1, "backend": "nccl"},
        "resources": {"gpu": 1},
        "runPolicy": {"backoffLimit": 0},
    }
    # The replicas are on two nodes: they get the folder that kind's nodes share.
    with stack_beside(project, "gpus", image, job, {"hostPath": f"{MODELS}/gpus", "shared": True}) as stack:
        failed = stack.make("up")
        assert failed.returncode != 0
        assert "--backend nccl needs a GPU" in failed.stdout


@pytest.mark.usefixtures("made_up_gpus")
def test_more_gpus_than_there_are_fail_at_preview(project: Project, image: str) -> None:
    job = {"name": "many", "replicas": {"worker": 5}, "resources": {"gpu": 1}}
    with stack_beside(project, "many", image, job) as stack:
        project.run("pulumi", "stack", "select", "--create", "many")
        refused = project.run("pulumi", "preview", "--stack", "many", check=False)
    assert refused.returncode != 0
    assert "at most 2 nvidia.com/gpu in this cluster; 6 replicas need 6" in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr
    assert stack.models.exists() is False


def test_rendered_manifests_run_without_pulumi(project: Project, image: str) -> None:
    wait = ["--for=condition=Succeeded", "pytorchjob/applied", "--namespace", "kubeflow"]
    with stack_beside(project, "applied", image, {"name": "applied"}) as stack:
        rendered = stack.make("review")
        assert rendered.returncode == 0, rendered.stdout
        folder = f"stacks/rendered/{stack.stack}"
        files = ("--filename", f"{folder}/kept/kept.yaml", "--filename", f"{folder}/jobs/jobs.yaml")
        try:
            project.run("kubectl", "apply", *files)
            project.run("kubectl", "wait", *wait, f"--timeout={HANG_S:.0f}s", timeout=2 * HANG_S)
        finally:
            project.run("kubectl", "delete", "--ignore-not-found", *files)
