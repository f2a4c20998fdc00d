"""A state that has lost the cluster, or everything, costs nobody the cluster: it holds what others made, too."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from infra.objects.labels import OWNER
from tests.e2e import processes
from tests.e2e.project import Project
from tests.e2e.test_repair import containers
from tests.e2e.waiting import wait_until
from tests.faults.table import background, cluster
from tests.faults.table.training import JOB
from tests.faults.table.trial import Trial

PRECIOUS = "precious"
KIND_CLUSTER = "pulumi-python:dynamic/trainstack:KindCluster"
UNSAVED, SAVED = "before the state has it", "when the state has it"


def uid(project: Project, kind: str, name: str) -> str:
    return str(project.get(kind, name)["metadata"]["uid"])


def everything(project: Project) -> dict[str, str]:
    """Containers, somebody else's namespace and our job, by what tells each from a successor of its name."""
    nodes = {name: each for name, each in containers(project).items() if not name.endswith("-registry")}
    return nodes | {
        PRECIOUS: uid(project, "namespace", PRECIOUS),
        JOB: uid(project, "pytorchjob", JOB),
    }


@pytest.fixture
def before(project: Project) -> Iterator[dict[str, str]]:
    """What the cluster holds, with a namespace that somebody else has made."""
    project.stand_up()
    project.run("kubectl", "create", "namespace", PRECIOUS)
    yield everything(project)
    project.run("kubectl", "delete", "namespace", PRECIOUS, check=False)


@pytest.fixture
def owner(project: Project, before: dict[str, str]) -> str:
    """The id in the mark of the stack's objects, which `make status` shows."""
    return str(project.get("pytorchjob", JOB)["metadata"]["labels"][OWNER])


def is_taken_over(project: Project, owner: str, before: dict[str, str]) -> None:
    project.up(f"ADOPT={owner}")
    assert everything(project) == before
    project.run("pulumi", "preview", "--expect-no-changes", "--stack", project.stack)


@pytest.mark.slow(reason="stops the API server for the length of a make up")
@pytest.mark.row("state-lost")
def test_a_lost_state_and_a_silent_api_server_cost_nobody_the_cluster(
    project: Project, before: dict[str, str], owner: str, trial: Trial
) -> None:
    there = containers(project)
    for name in ("state", "state-copies"):
        shutil.rmtree(project.root / ".trainstack" / name, ignore_errors=True)
    with cluster.without_api_server(project):
        trial.strike("")
        refused = project.make("up")
        assert containers(project) == there, refused.stdout
    assert refused.returncode != 0, refused.stdout
    assert everything(project) == before, refused.stdout
    is_taken_over(project, owner, before)
    trial.recovered()


@pytest.mark.slow(reason="takes the whole stack over once more")
@pytest.mark.row("state-without-cluster")
def test_a_state_without_the_cluster_costs_nobody_the_cluster(
    project: Project, before: dict[str, str], owner: str, trial: Trial
) -> None:
    exported = json.loads(project.run("pulumi", "stack", "export", "--stack", project.stack).stdout)
    (urn,) = [each["urn"] for each in exported["deployment"]["resources"] if each["type"] == KIND_CLUSTER]
    project.run("pulumi", "state", "delete", urn, "--target-dependents", "--yes", "--stack", project.stack)
    trial.strike("")
    refused = project.make("up")
    assert refused.returncode != 0, refused.stdout
    assert everything(project) == before, refused.stdout
    for part in (
        f"kind cluster {project.cluster} exists",
        "its creation was finished",
        "nothing was touched",
        f"namespaces/{PRECIOUS}",
        f"ADOPT={owner}",
        "REPLACE_CLUSTER=yes",
    ):
        assert part in refused.stdout
    is_taken_over(project, owner, before)
    trial.recovered()


def state_has_cluster(project: Project) -> bool:
    file = (
        project.root / ".trainstack" / "state" / ".pulumi" / "stacks" / "trainstack" / f"{project.stack}.json"
    )
    found = json.loads(file.read_text())["checkpoint"]["latest"].get("resources") or []
    return any(each["type"] == KIND_CLUSTER for each in found)


@pytest.mark.slow(reason="makes the cluster twice")
@pytest.mark.row("up-killed-unsaved")
def test_a_cluster_that_is_ready_and_not_in_the_state_yet_is_made_again_unasked(
    project: Project, trial: Trial
) -> None:
    assert project.make("down").returncode == 0
    kubeconfig = project.root / ".trainstack" / "kubeconfig" / f"{project.cluster}.yaml"
    with background.make(project, "up") as running:
        wait_until("kind has written the kubeconfig, its last step", kubeconfig.exists, pause=0.01)
        processes.kill(running.process)
    wait_until("nothing of it runs any more", lambda: not processes.working_in(project.root))
    trial.strike(SAVED if state_has_cluster(project) else UNSAVED)
    project.up()
    trial.recovered()
    project.run("pulumi", "preview", "--expect-no-changes", "--stack", project.stack)
    marker = project.root / ".trainstack" / "clusters" / f"{project.cluster}.json"
    assert json.loads(marker.read_text())["finished"] is True
