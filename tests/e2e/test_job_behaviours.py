"""How jobs end, restart, wait and go, on the real controllers: each behaviour once, for both APIs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.config.operator import OperatorApi
from infra.objects.job_kinds import RUNTIME, TRAINER_GROUP
from infra.objects.labels import RUN
from infra.trainer_controller.patches import SETTINGS, SETTINGS_FILE, SETTINGS_READ, TRAINER
from infra.training_operator import patches
from tests.e2e import tally
from tests.e2e.jobs import Jobs, Training
from tests.e2e.project import Project
from tests.e2e.waiting import wait_until, while_running
from tests.matrix.kind_project import UNCHANGED

pytestmark = pytest.mark.slow(reason="a cluster, two more operators to compile, and trainings under each API")
DIGITS = {"dataset": "digits", "epochs": 12}
DEADLINE_S = 20
STAYS_S = 5
KEPT = ("job", "model", "accuracy", "loss")
# What concurrency 7, qps 70 and burst 140 are for each controller.
PACES = {
    OperatorApi.V1: {"--controller-threads=7", "--kube-api-qps=70", "--kube-api-burst=140"},
    OperatorApi.V2: {
        "TrainJob.trainer.kubeflow.org: 7",
        "qps: 70",
        "burst: 140",
        "concurrency=7 qps=70 burst=140",
    },
}


@pytest.fixture(scope="module", params=list(OperatorApi))
def api(request: pytest.FixtureRequest) -> OperatorApi:
    return OperatorApi(request.param)


@pytest.fixture
def jobs(clone: Project, api: OperatorApi) -> Iterator[Jobs]:
    """The clone's, under one API; what a test asks for is taken back afterwards."""
    before = clone.stack_file.read_text()
    tally.place(clone)
    yield Jobs(clone, api)
    clone.stack_file.write_text(before)


def test_a_finished_job_leaves_and_its_run_stays(jobs: Jobs) -> None:
    """The training-operator deletes a PyTorchJob, and `make up` a TrainJob."""
    name = jobs.named("leaving")
    jobs.ask(name=name, training=DIGITS, runPolicy={"ttlSecondsAfterFinished": STAYS_S})
    before = jobs.project.up()
    assert before["job"] == f"kubeflow/{name} Succeeded"
    (run,) = jobs.project.models.glob(f"runs/{name}-*")
    time.sleep(STAYS_S)
    if jobs.api is OperatorApi.V1:
        wait_until("the job has left", lambda: jobs.traces(name) == set())
    drift = jobs.project.make("drift")
    assert drift.returncode == 0, drift.stdout
    for _ in range(2):
        again = jobs.project.up()
        assert f"{name}: the job finished, and runPolicy" in again["output"], again["output"]
        assert "found gone" not in again["output"], again["output"]
        assert UNCHANGED.search(again["output"]), again["output"]
        assert {key: again[key] for key in KEPT} == {key: before[key] for key in KEPT}
    stays = {f"{RUNTIME.lower()}.{TRAINER_GROUP}/{name}"} if jobs.api is OperatorApi.V2 else set()
    wait_until("what was made of it has gone", lambda: jobs.traces(name) == stays)
    assert json.loads((run / "run.json").read_text())["outcome"] == "Succeeded"
    assert (run / "report.html").exists()
    drift, status = jobs.project.make("drift"), jobs.project.make("status")
    assert drift.returncode == 0, drift.stdout
    assert status.returncode == 0, status.stdout
    assert f"kubeflow/{name} has finished and was deleted; its run is {run.name}" in status.stdout


def test_neither_an_update_nor_another_pace_of_the_controllers_touches_a_finished_job(jobs: Jobs) -> None:
    name = jobs.named("paced")
    jobs.ask(name=name, training=DIGITS)
    assert jobs.project.up()["job"] == f"kubeflow/{name} Succeeded"
    before = jobs.uid(name), jobs.starts_of(name)
    again = jobs.project.up()["output"]
    assert UNCHANGED.search(again), again
    assert (jobs.uid(name), jobs.starts_of(name)) == before
    status = jobs.project.make("status")
    assert status.returncode == 0, status.stdout
    jobs.project.configure({"trainstack:operator": {"concurrency": 7, "qps": 70, "burst": 140}})
    jobs.project.up()
    assert (jobs.uid(name), jobs.starts_of(name)) == before
    assert PACES[jobs.api] <= read_by_controller(jobs)
    next_one = jobs.named("next")
    jobs.ask(name=next_one, training=DIGITS)
    assert jobs.project.up()["job"] == f"kubeflow/{next_one} Succeeded"
    jobs.project.configure({"trainstack:operator": {"concurrency": None, "qps": None, "burst": None}})
    jobs.project.up()
    assert not PACES[jobs.api] & read_by_controller(jobs)


def read_by_controller(jobs: Jobs) -> set[str]:
    """What the controller's pod was started with: arguments with v1, and with v2 the lines of its settings, too."""
    words = ("get", "pods", "--namespace", "kubeflow", "--output", "json")
    pods = json.loads(jobs.project.run("kubectl", *words).stdout)["items"]
    name = patches.NAME if jobs.api is OperatorApi.V1 else TRAINER
    (pod,) = [
        pod
        for pod in pods
        if pod["metadata"]["name"].startswith(f"{name}-") and "deletionTimestamp" not in pod["metadata"]
    ]
    if jobs.api is OperatorApi.V1:
        return set(pod["spec"]["containers"][0]["args"])
    text = jobs.project.get("configmap", SETTINGS)["data"][SETTINGS_FILE]
    started = pod["metadata"].get("annotations", {}).get(SETTINGS_READ, "")
    return {started, *(line.strip() for line in text.splitlines())}


def test_a_worker_that_is_killed_starts_again_with_all_others_and_the_run_ends(
    jobs: Jobs, tmp_path: Path
) -> None:
    name = jobs.named("killed")
    jobs.ask(name=name, restartPolicy="ExitCode", runPolicy={"backoffLimit": 100}, **tally.JOB)
    with jobs.training(name, tmp_path) as run:
        job, before = jobs.uid(name), jobs.starts_of(name)
        force = ("--namespace", "kubeflow", "--grace-period=0", "--force")
        jobs.project.run("kubectl", "delete", "pod", jobs.worker(name), *force)

        def all_others() -> bool:
            now = jobs.starts_of(name)
            return len(now) == len(before) and not now & before

        run.until("all replicas are started again", all_others)
        run.advances()
    assert jobs.uid(name) == job, "it is the same job"


def test_a_status_that_exit_code_does_not_restart_fails_the_job_at_once(jobs: Jobs) -> None:
    name = jobs.named("refused")
    jobs.ask(name=name, restartPolicy="ExitCode", args=["--log-interval=never"])
    said = jobs.project.make("up")
    assert said.returncode != 0, said.stdout
    assert jobs.failure(name) in said.stdout, said.stdout
    assert "argument --log-interval: invalid" in said.stdout, "the last lines of the container that failed"
    assert set(jobs.tries(name).values()) == {1}, jobs.tries(name)
    failed = jobs.uid(name)
    said = jobs.project.make("up")
    assert f"job kubeflow/{name} had failed before this `make up`: it is tried again" in said.stdout, (
        said.stdout
    )
    assert jobs.uid(name) != failed


def test_a_job_that_fails_more_often_than_it_is_started_again_fails(jobs: Jobs) -> None:
    """With a status that the policy does start again."""
    name = jobs.named("hopeless")
    alone = {"replicas": {"worker": None}, "command": ["sh", "-c", "exit 143"]}
    jobs.ask(name=name, restartPolicy="OnFailure", runPolicy={"backoffLimit": 1}, **alone)
    said = jobs.project.make("up")
    assert said.returncode != 0, said.stdout
    assert jobs.failure(name) in said.stdout, said.stdout
    assert jobs.differences.limit in said.stdout, said.stdout
    (tries,) = jobs.tries(name).values()
    assert tries > 1


# Rank 0 waits for the other one, so that both have said something when they end: the init container of v1 only knocks.
TELLS = """import os, socket, sys, time

def told(name):
    return os.environ.get(name) or os.environ["PET_" + name]

rank = os.environ.get("RANK") or os.environ["PET_NODE_RANK"]
print(f"rank={rank} secret={len(os.environ['TOKEN'])}", flush=True)
if rank == "0":
    server = socket.create_server(("", int(told("MASTER_PORT"))))
    while server.accept()[0].recv(6) != b"worker":
        pass
else:
    while True:
        try:
            socket.create_connection((told("MASTER_ADDR"), int(told("MASTER_PORT")))).sendall(b"worker")
            break
        except OSError:
            time.sleep(0.2)
sys.exit(143)
"""
VALUE = "a-value-of-a-secret"


def record_of(jobs: Jobs, name: str) -> Path:
    """The folder of the run that the live job makes."""
    run: str = jobs.live(name)["metadata"]["labels"][RUN]
    return jobs.project.models / "runs" / run


def logs_in(run: Path) -> dict[str, str]:
    return {file.stem: file.read_text() for file in run.glob("*.log")}


def test_a_failure_at_the_limit_leaves_the_log_of_each_replica(jobs: Jobs) -> None:
    name = jobs.named("telling")
    jobs.ask(name=name, runPolicy={"suspend": True})
    jobs.project.up()  # the namespace is there
    secret = ("create", "secret", "generic", name, f"--from-literal=token={VALUE}", "--namespace", "kubeflow")
    jobs.project.run("kubectl", *secret)
    env = {"TOKEN": {"secret": name, "key": "token"}}
    policy = {"restartPolicy": "OnFailure", "runPolicy": {"backoffLimit": 3, "suspend": False}}
    jobs.ask(command=["python3", "-c", TELLS], env=env, model=None, **policy)
    said = jobs.project.make("up")
    assert said.returncode != 0, said.stdout
    run = record_of(jobs, name)
    told = json.loads((run / "run.json").read_text())
    assert (told["outcome"], told["uid"]) == ("Failed", jobs.uid(name)), told
    assert jobs.differences.limit in told["message"], told
    assert told["configuration"]["environment"]["TOKEN"] == f"(secret {name}, key token)"
    kept = logs_in(run)
    assert {*kept} == {*jobs.replicas(name)}
    for rank, replica in enumerate(jobs.replicas(name)):
        assert f"rank={rank} secret={len(VALUE)}" in kept[replica], kept
        assert "exit code 143" in kept[replica], kept
    assert '"rank": 0.0' in (run / "printed.jsonl").read_text()
    assert [file.name for file in run.iterdir() if VALUE in file.read_text()] == []
    listed = json.loads(
        jobs.project.run("trainstack", "runs", "--stack", jobs.project.stack, "--json").stdout
    )
    assert [each["outcome"] for each in listed if each["run"] == run.name] == ["Failed"]


def test_logs_of_a_job_that_nobody_follows_are_kept_before_another_one_replaces_it(
    jobs: Jobs, tmp_path: Path
) -> None:
    name = jobs.named("left")
    jobs.ask(name=name, restartPolicy="ExitCode", runPolicy={"backoffLimit": 100}, **tally.JOB)
    log = tmp_path / "up.log"
    with jobs.project.making("up", log=log) as making:
        Training(jobs.project, name, while_running(making, log)).advances()
    run = record_of(jobs, name)
    assert logs_in(run) == {}, "who followed it was killed before a replica had ended"
    jobs.ask(training=DIGITS, args=[], env={})
    assert jobs.project.up()["job"] == f"kubeflow/{name} Succeeded"
    assert record_of(jobs, name) != run
    kept = logs_in(run)
    assert {*kept} == {*jobs.replicas(name)}
    assert "Train Epoch: " in kept[jobs.replicas(name)[0]], kept
    assert json.loads((run / "run.json").read_text())["end"] is None, "it ran until it was replaced"


def test_a_suspended_job_has_no_pods_and_starts_when_it_may(jobs: Jobs) -> None:
    name = jobs.named("held")
    jobs.ask(name=name, training=DIGITS, runPolicy={"suspend": True})
    assert jobs.project.up()["job"] == f"kubeflow/{name} Suspended"
    assert jobs.pods(name) == []
    jobs.ask(runPolicy={"suspend": False})
    assert jobs.project.up()["job"] == f"kubeflow/{name} Succeeded"


def test_a_job_that_is_suspended_while_it_trains_goes_on_when_it_may(jobs: Jobs, tmp_path: Path) -> None:
    name = jobs.named("paused")
    jobs.ask(name=name, restartPolicy="ExitCode", runPolicy={"backoffLimit": 100}, **tally.JOB)
    with jobs.training(name, tmp_path) as run:
        jobs.hold(name, True)
        run.until("its pods are gone", lambda: jobs.pods(name) == [])
        jobs.hold(name, False)
        run.advances()


def test_a_job_that_exceeds_its_deadline_fails(jobs: Jobs) -> None:
    """Also where nothing else happens: the replicas train for many minutes, and nobody looks at them."""
    name = jobs.named("late")
    jobs.ask(name=name, runPolicy={"activeDeadlineSeconds": DEADLINE_S}, **tally.JOB)
    said = jobs.project.make("up")
    assert said.returncode != 0, said.stdout
    assert jobs.failure(name) in said.stdout, said.stdout
    (condition,) = [each for each in jobs.live(name)["status"]["conditions"] if each["type"] == "Failed"]
    assert "deadline" in condition["message"], condition
    wait_until("its pods are gone", lambda: jobs.pods(name) == [])


def test_a_job_goes_with_everything_that_its_controllers_have_made(jobs: Jobs) -> None:
    """A stack without it is the same as one whose job has another name."""
    name, another = jobs.named("former"), jobs.named("another")
    jobs.ask(name=name, training=DIGITS)
    jobs.project.up()
    there = {each.partition("/")[0].partition(".")[0] for each in jobs.traces(name)}
    assert {jobs.kind.kind.lower(), "pod", "service"} <= there, "or the look finds nothing whatever is there"
    jobs.ask(name=another)
    assert jobs.project.up()["job"] == f"kubeflow/{another} Succeeded"
    wait_until("nothing of the former one is there", lambda: jobs.traces(name) == set())
