"""Kubeflow Trainer v2 on the real controllers: the model of v1, the way across and back, and what Trainer publishes.

How its jobs end, restart, wait and go is in test_job_behaviours.py, for both APIs.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.config.operator import OperatorApi
from infra.objects.job_kinds import OF_API, RUNTIME, TRAINER_GROUP, TRAINJOB
from infra.objects.labels import OF_JOBSET, STACK
from infra.run import job_status
from infra.trainer_controller import patches
from tests.e2e import clones
from tests.e2e.jobs import Jobs
from tests.e2e.project import Project
from tests.e2e.test_published import MANIFESTS
from tests.e2e.waiting import wait_until
from toolchain.machine.engine import Engine
from toolchain.tools import build

pytestmark = pytest.mark.slow(reason="a cluster, two more operators to compile, and trainings on both")
NAME = "pytorch-simple"
DIGITS = {"dataset": "digits", "epochs": 12}
PUBLISHED = MANIFESTS / "trainjob.yaml"
# Where kubectl puts what names no namespace.
ELSEWHERE = "default"


@pytest.fixture(scope="module")
def clone(engine: Engine) -> Iterator[Project]:
    with clones.temporary("trainer-v2") as made:
        yield made


def folder(project: Project, run: str) -> Path:
    return project.models / "runs" / run


def trained(project: Project, api: OperatorApi) -> tuple[str, str]:
    """Run's id and SHA-256 of the model that the same training leaves under `api`."""
    jobs = Jobs(project, api)
    jobs.ask(training=DIGITS)
    lines = project.up()
    assert lines["job"] == f"kubeflow/{NAME} Succeeded"
    assert float(lines["accuracy"]) >= 0.95
    assert float(lines["loss"]) > 0
    run = jobs.live(NAME)["metadata"]["labels"]["trainstack/run"]
    model = Path(lines["model"]).read_bytes()
    assert model == (folder(project, run) / "mnist_cnn.pt").read_bytes()
    return run, hashlib.sha256(model).hexdigest()


def test_the_same_run_ends_in_the_same_model_and_the_stack_goes_both_ways(clone: Project) -> None:
    found: list[tuple[str, str]] = []
    for api in (OperatorApi.V1, OperatorApi.V2, OperatorApi.V1, OperatorApi.V2):
        if found:  # else the next one would only take the model over
            shutil.rmtree(folder(clone, found[-1][0]))
        found.append(trained(clone, api))
        crds = clone.run("kubectl", "get", "crd", "--output", "name").stdout
        for each in OperatorApi:
            there = [name in crds for name in OF_API[each].crds]
            assert there == [each is api] * len(there), "the other operator is taken away"
    assert len(set(found)) == 1, "the same run, and bit for bit the same model"


def test_controllers_that_somebody_has_scaled_to_nothing_come_back(clone: Project) -> None:
    trained(clone, OperatorApi.V2)
    words = ("deployments", "--namespace", "kubeflow", "--selector", f"{STACK}={clone.stack}")

    def replicas() -> dict[str, int]:
        listed = json.loads(clone.run("kubectl", "get", *words, "--output", "json").stdout)["items"]
        return {each["metadata"]["name"]: each["spec"]["replicas"] for each in listed}

    before = replicas()
    assert before == dict.fromkeys(patches.IMAGES, 1)
    clone.run("kubectl", "scale", "--replicas=0", *words)
    found = clone.up()["output"]
    assert replicas() == before
    assert [name for name in before if f"Deployment kubeflow/{name} (spec.replicas)" not in found] == []


def shipped_runtime() -> Path:
    """`torch-distributed` as Trainer ships it; the stack installs no runtimes of images that are not its own."""
    manifests = build.source("trainer-controller", "github.com/kubeflow/trainer/v2", "manifests")
    return manifests / "base" / "runtimes" / "torch_distributed.yaml"


@contextmanager
def applied(project: Project, file: Path) -> Iterator[None]:
    """The objects of `file`, applied by hand; taken away at the end."""

    def is_taken() -> bool:
        done = project.run("kubectl", "apply", "--namespace", ELSEWHERE, "--filename", str(file), check=False)
        # Trainer's webhook may not have heard of the runtime yet.
        assert done.returncode == 0 or "must be created before" in done.stderr, done.stderr
        return done.returncode == 0

    try:
        wait_until(f"{file.name} is taken", is_taken)
        yield
    finally:
        words = ("--namespace", ELSEWHERE, "--ignore-not-found", "--filename", str(file))
        project.run("kubectl", "delete", *words)


def in_default(project: Project, *words: str) -> str:
    return project.run("kubectl", "--namespace", ELSEWHERE, *words).stdout


def logs(project: Project) -> dict[int, str]:
    """Node's number -> log of its pod."""
    listed = json.loads(
        in_default(project, "get", "pods", "--selector", f"{OF_JOBSET}={NAME}", "--output=json")
    )
    numbered = {
        int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]): pod
        for pod in listed["items"]
    }
    return {number: in_default(project, "logs", pod["metadata"]["name"]) for number, pod in numbered.items()}


def test_the_published_trainjob_trains_on_the_runtime_that_trainer_ships(
    clone: Project, tmp_path: Path
) -> None:
    """With nothing but its image's name changed, beside the stack's own job of the same name."""
    trained(clone, OperatorApi.V2)
    own = clone.get(f"{RUNTIME.lower()}s.{TRAINER_GROUP}", NAME)["spec"]["template"]["spec"][
        "replicatedJobs"
    ][0]
    image = own["template"]["spec"]["template"]["spec"]["containers"][0]["image"]
    manifest = tmp_path / PUBLISHED.name
    manifest.write_text(PUBLISHED.read_text().replace("IMAGE", image))

    def job() -> dict[str, Any]:
        return clone.get(TRAINJOB.resource, NAME, ELSEWHERE)

    with applied(clone, shipped_runtime()), applied(clone, manifest):
        wait_until("the job ends", lambda: job_status.condition(job())[0] in job_status.ENDED)
        said = logs(clone)
        assert job_status.condition(job())[0] == job_status.SUCCEEDED, (job()["status"], said)
    assert sorted(said) == [0, 1], said
    assert re.search(r"^accuracy=0\.\d+$", said[0], re.MULTILINE), said
    assert re.search(r"^loss=\d+\.\d+$", said[0], re.MULTILINE), said
    assert "the model is not saved" not in said[0], said
    assert "accuracy=" not in said[1], (
        f"a node that had trained alone would have measured its model, too: {said}"
    )


def test_make_down_takes_the_cluster_and_leaves_the_models(clone: Project, engine: Engine) -> None:
    model = clone.models / "mnist_cnn.pt"
    assert clone.make("down").returncode == 0
    assert clone.cluster not in engine.output("ps", "--all", "--format", "{{.Names}}")
    assert model.is_file()
