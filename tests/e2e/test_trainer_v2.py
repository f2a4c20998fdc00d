"""Kubeflow Trainer v2 on the real controllers: the model of v1, the way across and back, and what Trainer publishes.

How its jobs end, restart, wait and go is in test_job_behaviours.py, for both APIs. The first test begins with the
controllers of Trainer 2.2, and leaves today's to the others.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from infra.config.operator import OperatorApi
from infra.objects.job_kinds import JOBSET, OF_API, RUNTIME, TRAINER_GROUP, TRAINJOB
from infra.objects.labels import OF_JOBSET, STACK, VERSION
from infra.run import job_status
from infra.trainer_controller import patches
from tests.e2e import tally
from tests.e2e.jobs import Jobs, Training
from tests.e2e.project import Project
from tests.e2e.test_published import MANIFESTS
from tests.e2e.waiting import HANG_S, wait_until, while_running
from toolchain.machine.engine import Engine
from toolchain.tools import build

pytestmark = pytest.mark.slow(reason="a cluster, two more operators to compile, and trainings on both")
NAME = "pytorch-simple"
DIGITS = {"dataset": "digits", "epochs": 12}
# Trains long enough to report more than once.
REPORTING, LONG = "reporting", 150
PUBLISHED = MANIFESTS / "trainjob.yaml"
# Applied by hand and suspended under Trainer 2.2. It ends well with the variables that 2.3 alone adds.
HELD = "held"
TOLD_WHERE = ["sh", "-c", 'test -n "$KUBEFLOW_TRAINER_SERVER_URL"']
# Where kubectl puts what names no namespace.
ELSEWHERE = "default"
# Folder of toolchain/tools/go -> what it pins with Trainer 2.2.
EARLIER = {
    "jobset-controller": "sigs.k8s.io/jobset@v0.11.1",
    "trainer-controller": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager@v2.2.0",
}


@pytest.fixture(autouse=True)
def stack_file(clone: Project) -> Iterator[None]:
    """What a test writes into it is taken back, however the test ends."""
    before = clone.stack_file.read_text()
    yield
    clone.stack_file.write_text(before)


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


@contextmanager
def earlier(project: Project) -> Iterator[None]:
    """Inside, the stack brings EARLIER, pinned and vendored as CONTRIBUTING.md says, and takes no reports yet."""
    section = project.root / "infra" / "config" / "operator.py"
    try:
        for tool, package in EARLIER.items():
            folder = project.root / "toolchain" / "tools" / "go" / tool
            (folder / "go.sum").unlink()
            (folder / "go.mod").write_text(f"module trainstack/tools/{tool}\n\ngo 1.25.0\n")
            subprocess.run(["go", "get", "-tool", package], cwd=folder, check=True)
        words = ("-m", "pytest", "-q", "tests/preview/test_upstream.py", "-k", "jobset or trainer")
        variables = {**os.environ, "WRITE_UPSTREAM": "1"}
        subprocess.run([sys.executable, *words], cwd=project.root, env=variables, check=True)
        section.write_text(f"{section.read_text()}\n\nOperatorConfig.takes_reports = lambda *_: False\n")
        yield
    finally:
        for command in (["checkout", "--quiet", "--"], ["clean", "--quiet", "--force", "-d"]):
            changed = ("infra/upstream", "toolchain", str(section))
            subprocess.run(["git", *command, *changed], cwd=project.root, check=True)


def versions(project: Project) -> dict[str, str]:
    """Name of each of the stack's Deployments and definitions -> its version."""
    words = (
        "kubectl",
        "get",
        "deployments,crds",
        "--namespace",
        "kubeflow",
        "--selector",
        STACK,
        "--output=json",
    )
    listed = json.loads(project.run(*words).stdout)["items"]
    return {each["metadata"]["name"]: each["metadata"]["labels"].get(VERSION, "") for each in listed}


def of_release(jobset: str, trainer: str) -> dict[str, str]:
    """What `versions` finds of it."""
    of_jobset = dict.fromkeys((patches.JOBSET, JOBSET.crd), jobset)
    return {**dict.fromkeys((patches.TRAINER, *TRAINJOB.crds), trainer), **of_jobset}


@contextmanager
def suspended(project: Project, job: dict[str, Any], folder: Path) -> Iterator[None]:
    """Inside, HELD is there with its JobSet: suspended, on the runtime of `job`."""
    trainer = {**job["spec"]["trainer"], "command": TOLD_WHERE, "args": []}
    held = {
        "apiVersion": TRAINJOB.api_version,
        "kind": TRAINJOB.kind,
        "metadata": {"name": HELD, "namespace": "kubeflow"},
        "spec": {**job["spec"], "trainer": trainer, "suspend": True},
    }
    file = folder / "held.json"
    file.write_text(json.dumps(held))
    asked = ("kubectl", "get", JOBSET.resource, HELD, "--namespace", "kubeflow")
    try:
        project.run("kubectl", "apply", "--filename", str(file))
        wait_until("it has a JobSet", lambda: project.run(*asked, check=False).returncode == 0)
        yield
    finally:
        project.run("kubectl", "delete", "--ignore-not-found", "--filename", str(file))


def trained_once_its_jobset_is_deleted(jobs: Jobs) -> None:
    """Trainer can neither change HELD's JobSet nor let it run, and makes another one when somebody deletes it."""

    def resumed() -> bool:
        conditions = jobs.live(HELD)["status"]["conditions"]
        return ("Suspended", "False") in [(each["type"], each["status"]) for each in conditions]

    def is_refused() -> bool:
        events = [
            each
            for each in jobs.project.get("events")["items"]
            if (each["involvedObject"]["kind"], each["involvedObject"]["name"]) == (TRAINJOB.kind, HELD)
        ]
        return any("spec.replicatedJobs: Invalid value" in each["message"] for each in events)

    wait_until("Trainer tells that it cannot change the JobSet", is_refused)
    jobs.hold(HELD, False)
    wait_until("Trainer has heard that the job may run", resumed)
    assert jobs.pods(HELD) == []
    jobs.project.run("kubectl", "delete", JOBSET.resource, HELD, "--namespace", "kubeflow")
    wait_until("the job ends", lambda: job_status.condition(jobs.live(HELD))[0] in job_status.ENDS)
    assert job_status.condition(jobs.live(HELD))[0] == job_status.SUCCEEDED, jobs.live(HELD)


def test_a_stack_of_trainer_2_2_is_upgraded_under_its_job_and_not_taken_back(
    clone: Project, tmp_path: Path
) -> None:
    jobs, name = Jobs(clone, OperatorApi.V2), "upgraded"
    old = of_release(*(package.rpartition("@")[2] for package in EARLIER.values()))
    new = of_release(patches.JOBSET_VERSION, patches.TRAINER_VERSION)
    tally.place(clone, pause_s=2)  # hours: no machine is slow enough for the job to end before the upgrade
    jobs.ask(name=name, **tally.JOB)
    log = tmp_path / "earlier.log"
    with earlier(clone):
        built = clone.make("fetch")  # to compile the controllers may take longer than any wait
        assert built.returncode == 0, built.stdout
        with clone.making("up", log=log) as making:
            Training(clone, name, while_running(making, log)).advances()
            assert versions(clone) == old
            job, starts = jobs.uid(name), jobs.starts_of(name)
    with suspended(clone, jobs.live(name), tmp_path), jobs.training(name, tmp_path) as run:
        run.until("the controllers are upgraded", lambda: versions(clone) == new)
        run.advances()
        assert (jobs.uid(name), jobs.starts_of(name)) == (job, starts), "the same job, never started again"
        trained_once_its_jobset_is_deleted(jobs)
    model = (clone.models / "mnist_cnn.pt").read_bytes()
    with earlier(clone):
        said = clone.make("up")
    assert said.returncode != 0, said.stdout
    assert f"Deployment/kubeflow/{patches.TRAINER} {patches.TRAINER_VERSION}" in said.stdout, said.stdout
    assert versions(clone) == new
    assert (clone.models / "mnist_cnn.pt").read_bytes() == model


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


def test_a_trainjob_tells_how_far_it_is(clone: Project, tmp_path: Path) -> None:
    """In its status, in `make status`, in the lines of `make up` and in the run's timeline."""
    trained(clone, OperatorApi.V2)
    jobs, log = Jobs(clone, OperatorApi.V2), tmp_path / "up.log"
    jobs.ask(name=REPORTING, training={**DIGITS, "epochs": LONG})

    def told() -> dict[str, Any]:
        listed = clone.get(TRAINJOB.resource)["items"]
        found = [
            each["status"] for each in listed if each["metadata"]["name"] == REPORTING and "status" in each
        ]
        return dict(found[0].get("trainerStatus") or {}) if found else {}

    with clone.making("up", log=log) as making:
        until = while_running(making, log)
        until("the job is on its way", lambda: 0 < told().get("progressPercentage", 0) < 100)
        assert told()["estimatedRemainingSeconds"] >= 0
        said = clone.make("status").stdout
        assert re.search(rf"{REPORTING} Running, \d+ % done, \d+:\d\d:\d\d left", said), said
        assert making.wait(HANG_S) == 0, log.read_text()
    at_end = told()
    assert (at_end["progressPercentage"], at_end["estimatedRemainingSeconds"]) == (100, 0)
    metrics = {each["name"]: float(each["value"]) for each in at_end["metrics"]}
    assert metrics["epoch"] == LONG
    assert metrics["accuracy"] >= 0.95
    assert re.search(rf"^.*{REPORTING}: \d+ % done, ", log.read_text(), re.MULTILINE), log.read_text()
    (timeline,) = clone.models.glob(f"runs/{REPORTING}-*/{agreed.TIMELINE}")
    tenths = [what for _, about, what in json.loads(timeline.read_text()) if about == f"job {REPORTING}"]
    assert "100 % done" in tenths, tenths


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
