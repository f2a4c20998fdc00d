"""Jobs of Kubeflow Trainer v2 on the real controllers: the model of v1, and how they end, restart, wait and go."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.config.operator import OperatorApi
from infra.objects.job_kinds import JOBSET, OF_API, RUNTIME, TRAINJOB
from infra.run.trainjob_api import JOBSET_UID
from tests.e2e import clones, tally
from tests.e2e.project import Project
from tests.e2e.waiting import HANG_S, wait_until
from tests.matrix.kind_project import UNCHANGED
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(reason="a cluster, two more operators to compile, and trainings on both")
NAME = "pytorch-simple"
DIGITS = {"dataset": "digits", "epochs": 12}


@pytest.fixture(scope="module")
def clone(engine: Engine) -> Iterator[Project]:
    with clones.temporary("trainer-v2") as made:
        tally.place(made)
        yield made


@pytest.fixture
def plain(clone: Project) -> Iterator[Project]:
    """The clone; what a test asks for is taken back afterwards. Another `rerun` makes it a run of its own."""
    before = clone.stack_file.read_text()
    yield clone
    clone.stack_file.write_text(before)


def ask(project: Project, api: OperatorApi = OperatorApi.V2, **job: Any) -> None:
    project.configure({"trainstack:operator": {"api": api.value}, "trainstack:job": job})


def live(project: Project, name: str = NAME, api: OperatorApi = OperatorApi.V2) -> dict[str, Any]:
    return project.get(OF_API[api].resource, name)


def restarts(project: Project, name: str = NAME) -> int:
    return int(project.get(JOBSET.resource, name).get("status", {}).get("restarts") or 0)


def pods(project: Project, selector: str = JOBSET_UID) -> list[str]:
    words = ("kubectl", "get", "pods", "--namespace", "kubeflow", "--selector", selector, "--output", "name")
    return project.run(*words).stdout.split()


def folder(project: Project, run: str) -> Path:
    return project.models / "runs" / run


def trained(project: Project, api: OperatorApi) -> tuple[str, str]:
    """Run's id and SHA-256 of the model that the same training leaves under `api`."""
    ask(project, api, training=DIGITS)
    lines = project.up()
    assert lines["job"] == f"kubeflow/{NAME} Succeeded"
    assert float(lines["accuracy"]) >= 0.95
    assert float(lines["loss"]) > 0
    run = live(project, api=api)["metadata"]["labels"]["trainstack/run"]
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


def test_a_finished_trainjob_is_left_alone(clone: Project) -> None:
    trained(clone, OperatorApi.V2)
    before = live(clone)["metadata"]["uid"], pods(clone)
    assert UNCHANGED.search(clone.up()["output"])
    assert (live(clone)["metadata"]["uid"], pods(clone)) == before
    assert clone.make("status").returncode == 0


def test_a_worker_that_is_killed_starts_again_with_all_others_and_the_run_ends(
    plain: Project, tmp_path: Path
) -> None:
    tally.place(plain)
    name = "killed"
    ask(plain, name=name, restartPolicy="ExitCode", **tally.JOB)
    log = tmp_path / "up.log"
    with plain.making("up", log=log) as making:
        wait_until("the replicas train", lambda: tally.steps(plain, name) >= 4)
        before = live(plain, name)["metadata"]["uid"]
        (worker,) = [pod for pod in pods(plain) if f"/{name}-node-0-1-" in pod]
        plain.run("kubectl", "delete", worker, "--namespace", "kubeflow", "--grace-period=0", "--force")
        wait_until("JobSet starts all replicas anew", lambda: restarts(plain, name) >= 1)
        taken = tally.steps(plain, name)
        wait_until("they go on", lambda: tally.steps(plain, name) >= taken + 4)
        assert making.poll() is None, log.read_text()
        tally.hurry(plain)
        assert making.wait(HANG_S) == 0, log.read_text()
    assert live(plain, name)["metadata"]["uid"] == before, "it is the same job"
    assert tally.is_whole(tally.last(plain, name))


def test_a_status_that_exit_code_does_not_restart_fails_the_job_at_once(plain: Project) -> None:
    ask(plain, restartPolicy="ExitCode", rerun=3, args=["--no-such-option"])
    said = plain.make("up")
    assert said.returncode != 0
    assert f"TrainJob kubeflow/{NAME} failed" in said.stdout
    assert "--no-such-option" in said.stdout, "the last lines of the container that failed"
    assert restarts(plain) == 0
    failed = live(plain)["metadata"]["uid"]
    said = plain.make("up")
    assert f"job kubeflow/{NAME} had failed before this `make up`: it is tried again" in said.stdout
    assert live(plain)["metadata"]["uid"] != failed


def test_a_suspended_job_has_no_pods_and_starts_when_it_may(plain: Project) -> None:
    ask(plain, training=DIGITS, rerun=4, runPolicy={"suspend": True})
    lines = plain.up()
    assert lines["job"] == f"kubeflow/{NAME} Suspended"
    assert pods(plain) == []
    ask(plain, runPolicy={"suspend": False})
    assert plain.up()["job"] == f"kubeflow/{NAME} Succeeded"


def test_a_job_that_exceeds_its_deadline_fails(plain: Project) -> None:
    tally.place(plain)
    name = "late"
    ask(plain, name=name, runPolicy={"activeDeadlineSeconds": 5}, **tally.JOB)
    said = plain.make("up")
    assert said.returncode != 0
    assert f"TrainJob kubeflow/{name} failed" in said.stdout
    conditions = live(plain, name)["status"]["conditions"]
    assert "DeadlineExceeded" in {each.get("reason") for each in conditions if each["type"] == "Failed"}
    own = f"jobset.sigs.k8s.io/jobset-name={name}"
    wait_until("its pods are gone", lambda: pods(plain, own) == [])


def test_a_job_goes_with_everything_that_its_controllers_have_made(plain: Project) -> None:
    """A stack without it is the same as one whose job has another name."""
    trained(plain, OperatorApi.V2)
    ask(plain, name="another", training=DIGITS, rerun=6)
    assert plain.up()["job"] == "kubeflow/another Succeeded"
    kinds = (
        f"{TRAINJOB.resource},{RUNTIME.lower()}s.{TRAINJOB.group},{JOBSET.resource},jobs.batch,pods,services"
    )
    listed = json.loads(
        plain.run("kubectl", "get", kinds, "--namespace", "kubeflow", "--output", "json").stdout
    )
    names = {each["metadata"]["name"] for each in listed["items"]}
    assert {name for name in names if name.startswith(NAME)} == set()


def test_make_down_takes_the_cluster_and_leaves_the_models(clone: Project, engine: Engine) -> None:
    model = clone.models / "mnist_cnn.pt"
    assert clone.make("down").returncode == 0
    assert clone.cluster not in engine.output("ps", "--all", "--format", "{{.Names}}")
    assert model.is_file()
