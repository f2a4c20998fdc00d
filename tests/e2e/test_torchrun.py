"""Jobs whose pods run torchrun, in a real cluster: several processes in a pod; workers that come and go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import clones, tally
from tests.e2e.project import Project
from tests.e2e.waiting import HANG_S, wait_until
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(reason="a cluster of its own, and minutes until torchrun's replicas meet again")

JOB = "elastic"
CONFIG: dict[str, Any] = {
    "name": JOB,
    "replicas": {"master": None, "worker": 1},
    "elasticPolicy": {"minReplicas": 1, "maxReplicas": 2, "maxRestarts": 100},
    "restartPolicy": "ExitCode",
    "runPolicy": {"backoffLimit": 100},
    **tally.JOB,
}


@pytest.fixture(scope="module")
def clone(engine: Engine) -> Iterator[Project]:
    with clones.temporary("torchrun") as made:
        yield made


def written(project: Project) -> tuple[int, int]:
    """World size of the run's last start, and its last step; zeros before the first."""
    folders = list(project.models.glob(f"runs/{JOB}-*"))
    config, metrics = (folders[0] / name if folders else Path() for name in ("config.json", "metrics.jsonl"))
    if not config.is_file() or not metrics.is_file():
        return 0, 0
    whole, _, _ = metrics.read_text().rpartition("\n")
    world = int(json.loads(config.read_text())["world_size"])
    return world, int(json.loads(whole.splitlines()[-1])["step"]) if whole else 0


def trains_with(project: Project, world: int) -> None:
    """Return once that many workers have taken some steps together."""
    wait_until(f"{world} workers meet", lambda: written(project)[0] == world)
    first = written(project)[1]
    wait_until(
        f"{world} workers train", lambda: written(project)[0] == world and written(project)[1] >= first + 4
    )


def scale(project: Project, workers: int) -> None:
    project.run("kubectl", "scale", f"pytorchjob/{JOB}", f"--replicas={workers}", "--namespace", "kubeflow")


def uid(project: Project, pod: str) -> str:
    asked = ("kubectl", "get", "pod", pod, "--namespace", "kubeflow", "--output=jsonpath={.metadata.uid}")
    return project.run(*asked, check=False).stdout


def delete(project: Project, pod: str) -> None:
    """Delete the pod; return once the operator has made another one of its name."""
    before = uid(project, pod)
    project.run("kubectl", "delete", "pod", pod, "--namespace", "kubeflow", "--wait=false")
    wait_until(f"{pod} is made again", lambda: uid(project, pod) not in ("", before))


def test_two_processes_in_each_pod_are_four_ranks(clone: Project) -> None:
    job = {"name": "processes", "nprocPerNode": 2, "training": {"dataset": "digits", "epochs": 12}}
    clone.configure({"trainstack:job": job})
    assert float(clone.up()["accuracy"]) >= 0.95
    (config,) = clone.models.glob("runs/processes-*/config.json")
    assert json.loads(config.read_text())["world_size"] == 4


def test_workers_come_and_go(clone: Project, tmp_path: Path) -> None:
    """One worker, two, each of them deleted, one again: no example is lost or trained on twice, and the run ends."""
    tally.place(clone)
    clone.configure({"trainstack:job": {**CONFIG, "nprocPerNode": 1}})
    log = tmp_path / "up.log"
    with clone.making("up", log=log) as making:
        trains_with(clone, 1)
        scale(clone, 2)
        trains_with(clone, 2)
        for pod in (f"{JOB}-worker-1", f"{JOB}-worker-0"):
            delete(clone, pod)
            trains_with(clone, 2)
        scale(clone, 1)
        trains_with(clone, 1)
        assert making.poll() is None, log.read_text()
        tally.hurry(clone)
        assert making.wait(HANG_S) == 0, log.read_text()
    (metrics,) = clone.models.glob(f"runs/{JOB}-*/metrics.jsonl")
    assert tally.is_whole(json.loads(metrics.read_text().splitlines()[-1]))
