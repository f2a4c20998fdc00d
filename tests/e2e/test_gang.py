"""Two jobs on a real cluster with room for one of them and a part of the other: with gangs each starts whole.

Without gangs two such jobs can lock each other out: tests/matrix/test_gang_scheduler.py brings that about.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.config.names import quantity
from infra.config.operator import OperatorApi
from infra.objects.job_kinds import GANG_SCHEDULER
from tests.e2e import clones, tally
from tests.e2e.jobs import Jobs
from tests.e2e.project import Project
from tests.e2e.waiting import HANG_S, wait_until
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(
    reason="a cluster of its own, a scheduler to compile, two trainings under each API"
)
REPLICAS, ROOM = 3, 4
# What a replica asks for; half as much more stays free, which is of use to nobody.
EACH = "100m"
SPARE = quantity(EACH) / 2
BALLAST = "ballast"
UNENDED = ("Pending", "Running")


@pytest.fixture(scope="module")
def clone(engine: Engine) -> Iterator[Project]:
    with clones.temporary("gang") as made:
        made.configure({"trainstack:operator": {"gang": "scheduler-plugins"}})
        yield made


@pytest.fixture(params=list(OperatorApi))
def jobs(clone: Project, request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """The clone's, under one API, with its operators up."""
    before = clone.stack_file.read_text()
    made = Jobs(clone, OperatorApi(request.param))
    name = made.named("alone")
    made.ask(name=name, training={"dataset": "digits", "epochs": 1})
    assert clone.up()["job"] == f"kubeflow/{name} Succeeded"
    tally.place(clone)
    yield made
    clone.stack_file.write_text(before)


def asked(pod: dict[str, Any]) -> Decimal:
    """CPUs that the scheduler sets aside for the pod."""

    def of(name: str) -> list[Decimal]:
        requests = [each["resources"].get("requests", {}) for each in pod["spec"].get(name, [])]
        return [quantity(each.get("cpu", "0")) for each in requests]

    return max(sum(of("containers"), Decimal()), *of("initContainers"), Decimal())


def free(project: Project) -> Decimal:
    """CPUs of the only node that nobody has asked for; what is being deleted gives its own back."""
    (node,) = project.get("nodes")["items"]
    listed = project.run("kubectl", "get", "pods", "--all-namespaces", "--output", "json").stdout
    there = [
        pod
        for pod in json.loads(listed)["items"]
        if pod["spec"].get("nodeName")
        and pod["status"]["phase"] in UNENDED
        and "deletionTimestamp" not in pod["metadata"]
    ]
    return quantity(node["status"]["allocatable"]["cpu"]) - sum(map(asked, there), Decimal())


@contextmanager
def filled(project: Project, image: str, file: Path) -> Iterator[None]:
    """The node has room for ROOM replicas, whatever its size: a pod that sleeps has asked for the rest."""
    rest = free(project) - ROOM * quantity(EACH) - SPARE
    assert rest > 0, f"the node has less than {ROOM} times {EACH} of CPU to begin with"
    container = {
        "name": BALLAST,
        "image": image,
        "command": ["sleep", "infinity"],
        "resources": {"requests": {"cpu": str(rest)}},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": BALLAST}, "spec": spec}
    file.write_text(yaml.safe_dump(pod))
    in_default = ("--namespace", "default")
    try:
        project.run("kubectl", "apply", *in_default, "--filename", str(file))
        ready = ("--for=condition=Ready", f"pod/{BALLAST}", f"--timeout={HANG_S:.0f}s")
        project.run("kubectl", "wait", *in_default, *ready, timeout=2 * HANG_S)
        yield
    finally:
        project.run("kubectl", "delete", *in_default, "--ignore-not-found", "--filename", str(file))


def ask_for_both(jobs: Jobs, names: list[str]) -> None:
    """Two jobs that train until they are told to hurry, in place of the stack's one."""
    settings = yaml.safe_load(jobs.project.stack_file.read_text())
    job = settings["config"].pop("trainstack:job")
    asking = {"replicas": {"worker": REPLICAS - 1}, "resources": {"requests": {"cpu": EACH}}}
    settings["config"]["trainstack:jobs"] = [{**job, **asking, **tally.JOB, "name": name} for name in names]
    jobs.project.stack_file.write_text(yaml.safe_dump(settings, sort_keys=False))


def condition(pod: dict[str, Any]) -> dict[str, Any]:
    """What the scheduler says of the pod; empty where it has not looked at it yet."""
    found = pod["status"].get("conditions") or []
    return next((dict(each) for each in found if each["type"] == "PodScheduled"), {})


def placed(jobs: Jobs, name: str) -> int:
    """How many of the job's pods have a place on the node."""
    return len([pod for pod in jobs.pods(name) if pod["spec"].get("nodeName")])


def refused(jobs: Jobs, name: str) -> int:
    """How many of the job's pods the scheduler cannot place."""
    return len([pod for pod in jobs.pods(name) if condition(pod).get("status") == "False"])


def seen(jobs: Jobs, names: list[str]) -> str:
    """For a failure: what the scheduler has said of each pod."""
    lines = []
    for name in names:
        for pod in jobs.pods(name):
            place = pod["spec"].get("nodeName", "no node")
            lines.append(f"{pod['metadata']['name']} on {place}: {condition(pod)}")
    return "\n".join(lines)


def test_a_job_starts_whole_or_not_at_all_and_both_end(jobs: Jobs, tmp_path: Path) -> None:
    project, log = jobs.project, tmp_path / "up.log"
    (image,) = {pod["spec"]["containers"][0]["image"] for pod in jobs.pods(jobs.named("alone"))}
    names = [jobs.named("first"), jobs.named("second")]
    ask_for_both(jobs, names)
    with filled(project, image, tmp_path / "ballast.yaml"), project.making("up", log=log) as making:

        def stands() -> bool:
            """One job has all its places, and each replica of the other has been refused."""
            assert making.poll() is None, log.read_text()
            states = sorted((placed(jobs, name), refused(jobs, name)) for name in names)
            return states == [(0, REPLICAS), (REPLICAS, 0)]

        try:
            wait_until("one job has started whole, and the other not at all", stands)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{seen(jobs, names)}") from None
        (runs,) = [name for name in names if placed(jobs, name)]
        (waits,) = [name for name in names if name != runs]
        assert {pod["spec"]["schedulerName"] for name in names for pod in jobs.pods(name)} == {GANG_SCHEDULER}
        taken = tally.steps(project, runs)
        wait_until("its replicas train together", lambda: tally.steps(project, runs) >= taken + 4)
        assert free(project) >= quantity(EACH), "there is room for one replica more"
        assert placed(jobs, waits) == 0, f"and nobody takes it:\n{seen(jobs, names)}"
        tally.hurry(project)
        assert making.wait(HANG_S) == 0, f"{log.read_text()}\n{seen(jobs, names)}"
    assert all(tally.is_whole(tally.last(project, name)) for name in names)
    outputs = project.outputs()["jobs"]
    assert {name: outputs[name]["jobStatus"] for name in names} == dict.fromkeys(names, "Succeeded")
    ends = sorted(
        status["state"]["terminated"]["finishedAt"]
        for pod in jobs.pods(runs)
        for status in pod["status"]["containerStatuses"]
    )
    begins = [condition(pod)["lastTransitionTime"] for pod in jobs.pods(waits)]
    needed = REPLICAS - (ROOM - REPLICAS)
    assert min(begins) >= ends[needed - 1], "no replica took a place before there was room for all"
