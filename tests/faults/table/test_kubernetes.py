"""Parts of Kubernetes that go away while a job trains: `make up` waits, and the training comes to the same result."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.e2e.project import Project
from tests.e2e.waiting import wait_until
from tests.faults.table import cluster, training
from tests.faults.table.trial import Trial, of_each_api

AWAY_S = 60


def operator_away(project: Project) -> None:
    names = cluster.OPERATORS[project.api]
    deployments = [f"deployment/{name}" for name in names]
    kubectl = ("kubectl", *cluster.NAMESPACE)

    def is_away() -> bool:
        pods = project.run(*kubectl, "get", "pods", "--output=name").stdout.split()
        return not [pod for pod in pods if pod.removeprefix("pod/").startswith(names)]

    project.run(*kubectl, "scale", *deployments, "--replicas=0")
    wait_until("the operator is away", is_away)
    cluster.delete_pod(project, "worker")
    time.sleep(AWAY_S)
    assert not cluster.pod(project, "worker"), "nobody makes it anew"
    project.run(*kubectl, "scale", *deployments, "--replicas=1")
    for each in deployments:
        project.run(*kubectl, "rollout", "status", each, "--timeout=300s")


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
@pytest.mark.parametrize(("api", "row"), of_each_api(FAULTS))
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
