"""A real Kueue, which the stack has installed, with a quota for one job at a time: who starts, waits, and goes on."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.config.job import PRIORITY_LABEL, QUEUE_LABEL
from infra.config.operator import KUEUE_NAMESPACE, OperatorApi
from infra.job.queue import SUSPEND
from infra.kueue.patches import CONTROLLER
from infra.objects.job_kinds import CLUSTER_QUEUE, LOCAL_QUEUE, PYTORCHJOB, RUNTIME, TRAINER_GROUP, WORKLOAD
from infra.objects.labels import RUN
from tests.e2e import tally
from tests.e2e.beside import stack_beside
from tests.e2e.images import pulled
from tests.e2e.jobs import Jobs
from tests.e2e.project import Project
from tests.e2e.waiting import HANG_S, wait_until, while_running

pytestmark = pytest.mark.slow(
    reason="a cluster of its own, Kueue to compile, and trainings under each API one after the other"
)
QUEUE, REPLICAS, URGENT = "training", 2, "urgent"
ENOUGH = {"cpu": "64", "memory": "256Gi"}
QUOTA = {
    "localQueues": [QUEUE],
    "flavors": [{"nominalQuota": {**ENOUGH, "pods": REPLICAS}}],
    "preemption": {"withinClusterQueue": "LowerPriority"},
    "priorities": {URGENT: 100},
}
CONFIGURED = {"trainstack:operator": {"queue": "kueue"}, "trainstack:cluster": {"queue": QUOTA}}
# The other team's, on the same nodes.
TEAM, THEIRS = "team-b", "theirs"
MINUTE_S = 60


@pytest.fixture(params=list(OperatorApi))
def jobs(clone: Project, request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """The clone's, under one API, with its controllers up, and a job that has been through the queue."""
    before = clone.stack_file.read_text()
    made = Jobs(clone, OperatorApi(request.param))
    name = made.named("alone")
    made.ask(name=name, queue=QUEUE, training={"dataset": "digits", "epochs": 1})
    assert clone.up()["job"] == f"kubeflow/{name} Succeeded"
    assert since(made, name, "Finished")
    left = clone.get(WORKLOAD.resource)["items"]
    owners = [owner["kind"] for each in left for owner in each["metadata"]["ownerReferences"]]
    assert owners == [made.kind.kind], "the job before has gone, and its Workload with it"
    tally.place(clone)
    yield made
    clone.stack_file.write_text(before)


def ask_for(jobs: Jobs, names: list[str]) -> None:
    """Jobs that train until they are told to hurry, in place of the stack's one."""
    settings = yaml.safe_load(jobs.project.stack_file.read_text())
    section = {"queue": QUEUE, "replicas": {"worker": REPLICAS - 1}, **tally.JOB}
    settings["config"].pop("trainstack:job", None)
    settings["config"]["trainstack:jobs"] = [{**section, "name": name} for name in names]
    jobs.project.stack_file.write_text(yaml.safe_dump(settings, sort_keys=False))


def workload(jobs: Jobs, name: str) -> dict[str, Any]:
    """Kueue's own object of a job of this name."""
    found = [
        each
        for each in jobs.project.get(WORKLOAD.resource)["items"]
        for owner in each["metadata"].get("ownerReferences") or []
        if (owner["kind"], owner["name"]) == (jobs.kind.kind, name)
    ]
    assert len(found) == 1, found
    return dict(found[0])


def since(jobs: Jobs, name: str, condition: str) -> str:
    """When the condition of the job's workload has become true; an AssertionError where it has not."""
    conditions = workload(jobs, name)["status"]["conditions"]
    (found,) = [each for each in conditions if (each["type"], each["status"]) == (condition, "True")]
    return str(found["lastTransitionTime"])


def is_held(jobs: Jobs, name: str) -> bool:
    value: Any = jobs.live(name)
    for key in SUSPEND[jobs.kind.kind].split("."):
        value = value.get(key, {})
    return value is True


def test_two_jobs_over_a_quota_for_one_start_whole_and_one_after_the_other(
    jobs: Jobs, tmp_path: Path
) -> None:
    project, log = jobs.project, tmp_path / "up.log"
    names = [jobs.named("first"), jobs.named("second")]
    ask_for(jobs, names)
    with project.making("up", log=log) as making:
        until = while_running(making, log)
        until(
            "one job has all its pods, and the other none",
            lambda: sorted(len(jobs.pods(name)) for name in names) == [0, REPLICAS],
        )
        (runs,) = [name for name in names if jobs.pods(name)]
        (waits,) = [name for name in names if name != runs]
        taken = tally.steps(project, runs)
        until("its replicas train together", lambda: tally.steps(project, runs) >= taken + 4)
        assert is_held(jobs, waits), "it waits for room for both of its pods"
        assert jobs.pods(waits) == []
        until("the wait tells of the queue", lambda: f"queued in {QUEUE} until Kueue" in log.read_text())
        tally.hurry(project)
        assert making.wait(HANG_S) == 0, log.read_text()
    assert all(tally.is_whole(tally.last(project, name)) for name in names)
    outputs = project.outputs()["jobs"]
    assert {name: outputs[name]["jobStatus"] for name in names} == dict.fromkeys(names, "Succeeded")
    assert since(jobs, waits, "Admitted") >= since(jobs, runs, "Finished"), (
        "none of it before the other's end"
    )


@pytest.mark.parametrize(("old", "new"), list(permutations(OperatorApi)))
def test_an_unfinished_job_of_the_old_api_ends_before_the_new_one_starts(
    clone: Project, old: OperatorApi, new: OperatorApi, tmp_path: Path
) -> None:
    """Both continue one run, so they may not write to its folder together; and the quota has room for one."""
    before = clone.stack_file.read_text()
    left, jobs = Jobs(clone, old), Jobs(clone, new)
    left.ask(name=left.named("before"), queue=QUEUE, training={"dataset": "digits", "epochs": 1})
    clone.up()
    tally.place(clone)
    name = left.named("crossed")
    ask_for(left, [name])
    runs = set()
    for each, other in ((left, jobs), (jobs, left)):
        clone.configure({"trainstack:operator": {"api": each.api.value}})
        log = tmp_path / f"up-{each.api}.log"
        with clone.making("up", log=log) as making:
            until = while_running(making, log)
            until("it has its pods", lambda each=each: len(each.pods(name)) == REPLICAS)  # type: ignore[misc]
            runs.add(each.live(name)["metadata"]["labels"][RUN])
            assert other.pods(name) == []
            if each is jobs:
                tally.hurry(clone)
                assert making.wait(HANG_S) == 0, log.read_text()
    assert len(runs) == 1, "it is the same run"
    assert f"{left.kind.kind} kubeflow/{name} has left the stack" in log.read_text()
    assert tally.is_whole(tally.last(clone, name)), "no step is lost, and none is taken twice"
    assert clone.outputs()["jobs"][name]["jobStatus"] == "Succeeded"
    workloads = clone.get(WORKLOAD.resource)["items"]
    owners = [owner["kind"] for each in workloads for owner in each["metadata"]["ownerReferences"]]
    assert owners == [jobs.kind.kind]
    clone.stack_file.write_text(before)


def copies(jobs: Jobs, name: str, new: str) -> str:
    """The job `name` as somebody would apply it again under another name, urgent; for kubectl."""
    found = [jobs.live(name)]
    if jobs.api is OperatorApi.V2:
        found = [jobs.project.get(f"{RUNTIME.lower()}s.{TRAINER_GROUP}", name), *found]
    made = []
    for each in copy.deepcopy(found):
        old = each["metadata"]
        kept = {key: old[key] for key in ("namespace", "labels") if key in old}
        spec = {
            key: value for key, value in each["spec"].items() if key not in ("runtimePatches", "managedBy")
        }
        made.append(
            {
                **{key: each[key] for key in ("apiVersion", "kind")},
                "metadata": {**kept, "name": new},
                "spec": spec,
            }
        )
    job = made[-1]
    job["metadata"]["labels"] |= {QUEUE_LABEL: QUEUE, PRIORITY_LABEL: URGENT}
    if jobs.api is OperatorApi.V2:
        job["spec"] |= {"suspend": True, "runtimeRef": {**job["spec"]["runtimeRef"], "name": new}}
    else:
        job["spec"]["runPolicy"]["suspend"] = True
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": made})


def test_a_job_goes_for_an_urgent_one_and_goes_on_from_its_checkpoint(jobs: Jobs, tmp_path: Path) -> None:
    project, name, urgent = jobs.project, jobs.named("patient"), jobs.named(URGENT)
    file = tmp_path / "urgent.json"
    file.write_text(copies(jobs, jobs.named("alone"), urgent))
    ask_for(jobs, [name])
    try:
        with jobs.training(name, tmp_path) as run:
            starts = jobs.starts_of(name)
            project.run("kubectl", "apply", "--filename", str(file))
            run.until("the urgent job has ended", lambda: _has(jobs, urgent, "Finished"))
            run.until("it has pods again", lambda: len(jobs.starts_of(name) - starts) == REPLICAS)
            assert since(jobs, name, "Admitted") >= since(jobs, urgent, "Finished"), (
                "it has waited for its end"
            )
            run.advances()
        told = (tmp_path / "up.log").read_text()
        assert told.count(f"queued in {QUEUE} until Kueue") >= 1, told
    finally:
        project.run("kubectl", "delete", "--ignore-not-found", "--filename", str(file))


def _has(jobs: Jobs, name: str, condition: str) -> bool:
    """Whether the job's workload has a condition."""
    try:
        since(jobs, name, condition)
    except (AssertionError, KeyError, ValueError):
        return False
    return True


def controllers(project: Project, number: int) -> None:
    project.run(
        "kubectl", "--namespace", KUEUE_NAMESPACE, "scale", "deployment", CONTROLLER, f"--replicas={number}"
    )

    def are_there() -> bool:
        words = ("get", "pods", "--namespace", KUEUE_NAMESPACE, "--output", "json")
        return len(json.loads(project.run("kubectl", *words).stdout)["items"]) == number

    wait_until(f"Kueue has {number} pods", are_there)


def test_without_kueue_for_a_minute_a_training_goes_on(jobs: Jobs, tmp_path: Path) -> None:
    project, name = jobs.project, jobs.named("through")
    ask_for(jobs, [name])
    with jobs.training(name, tmp_path) as run:
        controllers(project, 0)
        end = time.monotonic() + MINUTE_S
        run.until("a minute is over", lambda: time.monotonic() >= end)
        run.advances()
        assert not is_held(jobs, name)
        controllers(project, 1)  # a job before it goes with its workload, which waits for Kueue
    later = jobs.named("later")
    ask_for(jobs, [later])
    assert project.up()["job"] == f"kubeflow/{later} Succeeded"
    assert since(jobs, later, "Finished")


WORKLOADS = {
    "apiVersion": WORKLOAD.api_version,
    "kind": WORKLOAD.kind,
    "metadata": {"name": THEIRS, "namespace": TEAM},
    "spec": {
        "queueName": "guests",
        "podSets": [
            {
                "name": "main",
                "count": 1,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}],
                    }
                },
            }
        ],
    },
}
GUESTS = {
    "apiVersion": LOCAL_QUEUE.api_version,
    "kind": LOCAL_QUEUE.kind,
    "metadata": {"name": "guests", "namespace": TEAM},
    "spec": {"clusterQueue": TEAM},
}


def test_down_leaves_the_queues_in_which_others_have_workloads(clone: Project, tmp_path: Path) -> None:
    made = Jobs(clone, OperatorApi.V1)
    made.ask(name=made.named("alone"), queue=QUEUE, training={"dataset": "digits", "epochs": 1})
    clone.up()
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [GUESTS, WORKLOADS]}))
    storage = {"hostPath": f"/var/lib/trainstack/{TEAM}"}
    job = {"name": "beside", "queue": "beside"}
    with stack_beside(clone, "beside", pulled(clone, made.named("alone")), job, storage) as beside:
        queue = {"name": TEAM, "localQueues": ["beside"], "flavors": [{"nominalQuota": ENOUGH}]}
        beside.configure(
            {
                "trainstack:operator": {"queue": "kueue"},
                "trainstack:cluster": {"namespace": TEAM, "queue": queue},
            }
        )
        assert beside.up()["job"] == f"{TEAM}/beside Succeeded"
        clone.run("kubectl", "apply", "--filename", str(file))
        there = ("get", WORKLOAD.resource, THEIRS, "--namespace", TEAM, "--output", "json")

        def admitted() -> bool:
            status = json.loads(clone.run("kubectl", *there).stdout).get("status") or {}
            return bool((status.get("admission") or {}).get("clusterQueue") == TEAM)

        wait_until("their workload is admitted", admitted)
        down = beside.make("down")
        assert down.returncode == 0, down.stdout
        (left,) = [line for line in down.stdout.splitlines() if line.startswith("left in the cluster")]
        assert f"{CLUSTER_QUEUE.kind}/{TEAM}" in left
        assert f"Namespace/{TEAM}" in left
        assert f"{WORKLOAD.kind}/{TEAM}/{THEIRS}" in down.stdout
        assert admitted(), "nobody has touched it"
        listed = clone.run("kubectl", "get", PYTORCHJOB.resource, "--namespace", TEAM, "--output", "name")
        assert listed.stdout == ""
    clone.run("kubectl", "delete", "--filename", str(file))
    clone.run("kubectl", "delete", LOCAL_QUEUE.resource, "beside", "--namespace", TEAM)
    clone.run("kubectl", "delete", CLUSTER_QUEUE.resource, TEAM)
