"""Jobs whose pods run torchrun, in a real cluster: several processes in a pod; workers and nodes that come and go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import tally
from tests.e2e.project import Project
from tests.e2e.waiting import HANG_S, Until, wait_until, while_running

pytestmark = pytest.mark.slow(reason="two nodes of its own, and minutes until torchrun's replicas meet again")

CONFIGURED = {"trainstack:cluster": {"workers": 1}, "trainstack:storage": {"shared": True}}
"""The clone's two nodes share the folder of the models."""
JOB = "elastic"
CONFIG: dict[str, Any] = {
    "name": JOB,
    "replicas": {"master": None, "worker": 1},
    "elasticPolicy": {"minReplicas": 1, "maxReplicas": 2, "maxRestarts": 100},
    "restartPolicy": "ExitCode",
    "runPolicy": {"backoffLimit": 100},
    **tally.JOB,
}


def written(project: Project) -> tuple[int, int]:
    """World size of the run's last start, and its last step; zeros before the first."""
    config, metrics = (newest(project) / name for name in ("config.json", "metrics.jsonl"))
    if not config.is_file() or not metrics.is_file():
        return 0, 0
    whole, _, _ = metrics.read_text().rpartition("\n")
    world = int(json.loads(config.read_text())["world_size"])
    return world, int(json.loads(whole.splitlines()[-1])["step"]) if whole else 0


def runs(project: Project) -> list[Path]:
    """Folders of the job's runs, the one that was written to last at the end."""
    return sorted(project.models.glob(f"runs/{JOB}-*"), key=lambda each: each.stat().st_mtime)


def newest(project: Project) -> Path:
    return runs(project)[-1]


def trains_with(project: Project, until: Until, world: int) -> None:
    """Return once that many workers have taken some steps together."""
    until(f"{world} workers meet", lambda: written(project)[0] == world)
    first = written(project)[1]
    until(f"{world} workers train", lambda: written(project)[0] == world and written(project)[1] >= first + 4)


def scale(project: Project, workers: int) -> None:
    project.run("kubectl", "scale", f"pytorchjob/{JOB}", f"--replicas={workers}", "--namespace", "kubeflow")


def uid(project: Project, pod: str) -> str:
    asked = ("kubectl", "get", "pod", pod, "--namespace", "kubeflow", "--output=jsonpath={.metadata.uid}")
    return project.run(*asked, check=False).stdout


def node(project: Project, pod: str) -> str:
    """Where the pod is; empty where it is nowhere."""
    asked = ("kubectl", "get", "pod", pod, "--namespace", "kubeflow", "--output=jsonpath={.spec.nodeName}")
    return project.run(*asked, check=False).stdout


@contextmanager
def only_on(project: Project, wanted: str) -> Iterator[None]:
    """New pods come to the node `wanted` while the block runs."""
    nodes = [each["metadata"]["name"] for each in project.get("nodes")["items"]]
    others = [each for each in nodes if each != wanted]
    project.run("kubectl", "cordon", *others)
    try:
        yield
    finally:
        project.run("kubectl", "uncordon", *others)


def move(project: Project, until: Until, pod: str, place: str) -> None:
    with only_on(project, place):
        delete(project, until, pod)
        until(f"{pod} is on {place}", lambda: node(project, pod) == place)


def hand_over_to(project: Project, wanted: str) -> None:
    """The control plane's node takes pods like any other; the operator goes there."""
    project.run("kubectl", "taint", "node", wanted, "node-role.kubernetes.io/control-plane-", check=False)
    operator = ("--namespace", "kubeflow", "deployment/training-operator")
    with only_on(project, wanted):
        project.run("kubectl", "rollout", "restart", *operator)
        project.run("kubectl", "rollout", "status", *operator, "--timeout=300s")


def lose(project: Project, gone: str) -> None:
    """The machine stops without a word, and whoever provides nodes takes it out of the cluster."""
    project.run("docker", "kill", gone)
    project.run("kubectl", "delete", "node", gone)


def bring_back(project: Project, gone: str) -> None:
    project.run("docker", "start", gone)
    ready = ("kubectl", "wait", "--for=condition=Ready", f"node/{gone}", "--timeout=10s")
    wait_until(f"{gone} is back", lambda: project.run(*ready, check=False).returncode == 0)


def delete(project: Project, until: Until, pod: str) -> None:
    """Delete the pod; return once the operator has made another one of its name."""
    before = uid(project, pod)
    project.run("kubectl", "delete", "pod", pod, "--namespace", "kubeflow", "--wait=false")
    until(f"{pod} is made again", lambda: uid(project, pod) not in ("", before))


def test_two_processes_in_each_pod_are_four_ranks(clone: Project) -> None:
    job = {"name": "processes", "nprocPerNode": 2, "training": {"dataset": "digits", "epochs": 12}}
    clone.configure({"trainstack:job": job})
    assert float(clone.up()["accuracy"]) >= 0.95
    (config,) = clone.models.glob("runs/processes-*/config.json")
    assert json.loads(config.read_text())["world_size"] == 4


def test_workers_come_and_go(clone: Project, tmp_path: Path) -> None:
    """One worker, two, each of them deleted, one again: no example is lost or trained on twice, and the run ends."""
    tally.place(clone)
    with is_trained_whole(clone, "workers", tmp_path / "up.log") as until:
        trains_with(clone, until, 1)
        scale(clone, 2)
        trains_with(clone, until, 2)
        for pod in (f"{JOB}-worker-1", f"{JOB}-worker-0"):
            delete(clone, until, pod)
            trains_with(clone, until, 2)
        scale(clone, 1)
        trains_with(clone, until, 1)


@pytest.mark.parametrize("worker", [1, 0], ids=["of a worker", "where the workers meet"])
def test_a_node_goes(clone: Project, tmp_path: Path, worker: int) -> None:
    """Its worker is trained with on the node that stays, and the run ends as if nothing had been."""
    stays, goes = f"{clone.cluster}-control-plane", f"{clone.cluster}-worker"
    lost, kept = f"{JOB}-worker-{worker}", f"{JOB}-worker-{1 - worker}"
    with is_trained_whole(clone, f"node-{worker}", tmp_path / "up.log") as until:
        trains_with(clone, until, 1)
        hand_over_to(clone, stays)
        scale(clone, 2)
        trains_with(clone, until, 2)
        move(clone, until, kept, stays)
        move(clone, until, lost, goes)
        trains_with(clone, until, 2)
        lose(clone, goes)
        try:
            until(f"{lost} is on {stays}", lambda: node(clone, lost) == stays)
            trains_with(clone, until, 2)
        finally:
            bring_back(clone, goes)


@contextmanager
def is_trained_whole(project: Project, run: str, log: Path) -> Iterator[Until]:
    """While the block runs, a run of its own trains; at its end, no example was lost or trained on twice.

    Yields what waits for anything that comes about while it trains.

    Parameters:
        log: a file for what `make up` says.
    """
    tally.place(project)
    earlier = set(runs(project))
    environment = {**tally.ENV, "TALLY": run}
    project.configure({"trainstack:job": {**CONFIG, "nprocPerNode": 1, "env": environment}})
    with project.making("up", log=log) as making:
        until = while_running(making, log)
        until("the run begins", lambda: bool(set(runs(project)) - earlier))
        yield until
        assert making.poll() is None, log.read_text()
        tally.hurry(project)
        assert making.wait(HANG_S) == 0, log.read_text()
    assert tally.is_whole(json.loads(newest(project).joinpath("metrics.jsonl").read_text().splitlines()[-1]))
