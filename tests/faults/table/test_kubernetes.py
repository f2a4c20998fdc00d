"""Parts of Kubernetes that go away while a job trains: `make up` waits, and the training comes to the same result."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.e2e.project import Project
from tests.e2e.waiting import wait_until
from tests.faults.table import cluster, training
from tests.faults.table.trial import Trial, of_each_way

AWAY_S = 60


def operator_away(project: Project) -> None:
    controllers = cluster.controllers(project)

    def kubectl(namespace: str, *words: str) -> str:
        return project.run("kubectl", "--namespace", namespace, *words).stdout

    def are_away() -> bool:
        return not [
            pod
            for namespace, names in controllers.items()
            for pod in kubectl(namespace, "get", "pods", "--output=name").split()
            if pod.removeprefix("pod/").startswith(names)
        ]

    def scale(replicas: int) -> None:
        for namespace, names in controllers.items():
            kubectl(namespace, "scale", "deployment", *names, f"--replicas={replicas}")

    scale(0)
    wait_until("the operator is away", are_away)
    cluster.delete_pod(project, "worker")
    time.sleep(AWAY_S)
    assert not cluster.pod(project, "worker"), "nobody makes it anew"
    scale(1)
    for namespace, names in controllers.items():
        for name in names:
            kubectl(namespace, "rollout", "status", f"deployment/{name}", "--timeout=300s")


def node_restarted(project: Project) -> None:
    project.run("docker", "restart", cluster.node(project))


def kubelet_away(project: Project) -> None:
    systemctl = ("docker", "exec", cluster.node(project), "systemctl")
    project.run(*systemctl, "stop", "kubelet")
    time.sleep(AWAY_S)
    project.run(*systemctl, "start", "kubelet")


def etcd_killed(project: Project) -> None:
    cluster.kill(project, "etcd")


def containerd_restarted(project: Project) -> None:
    project.run("docker", "exec", cluster.node(project), "systemctl", "restart", "containerd")


def registry_away(project: Project) -> None:
    registry = f"{project.cluster}-registry"
    project.run("docker", "stop", registry)
    cluster.delete_pod(project, "worker")
    time.sleep(AWAY_S)
    project.run("docker", "start", registry)


FAULTS: dict[str, Callable[[Project], None]] = {
    "operator-away": operator_away,
    "node-restarted": node_restarted,
    "kubelet-away": kubelet_away,
    "etcd-killed": etcd_killed,
    "containerd-restarted": containerd_restarted,
    "registry-away": registry_away,
}


@pytest.mark.slow(reason="a training and a minute of waiting each")
@pytest.mark.parametrize(("way", "row"), of_each_way(FAULTS))
def test_a_training_outlives_it(
    clone: Project, undisturbed: tuple[float, float], trial: Trial, row: str
) -> None:
    with training.started(clone) as run:
        run.reaches(1, 0.2)
        epoch, step = run.progress
        trial.strike(f"epoch {epoch}")
        FAULTS[row](clone)
        wait_until("the API server answers", lambda: cluster.api_answers(clone))
        run.goes_on(step)
        trial.recovered()
        assert run.result() == undisturbed
    assert " unchanged" in clone.up()["output"]
