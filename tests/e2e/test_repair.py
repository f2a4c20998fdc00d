"""What somebody stopped is started, what somebody deleted is made again, and nothing is lost unasked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from tests.e2e.project import Project

ACCURACY_FLOOR = 0.95


def containers(project: Project) -> dict[str, str]:
    """Name -> id of the cluster's nodes and its registry, running or not."""
    listed = project.run("docker", "ps", "--all", "--no-trunc", "--format", "{{.Names}} {{.ID}}").stdout
    pairs = (line.split() for line in listed.splitlines())
    return {name: container for name, container in pairs if name.startswith(f"{project.cluster}-")}


def model(project: Project) -> str:
    return hashlib.sha256((project.models / "mnist_cnn.pt").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def by_hand(project: Project, up: dict[str, str]) -> Iterator[str]:
    """A ConfigMap that somebody put into the cluster."""
    project.run("kubectl", "create", "configmap", "by-hand", "--namespace", "default")
    yield "configmap/by-hand"
    project.run("kubectl", "delete", "configmap", "by-hand", "--namespace", "default", check=False)


def test_a_stopped_cluster_is_started_with_all_that_it_held(
    project: Project, up: dict[str, str], by_hand: str
) -> None:
    before, weights = containers(project), model(project)
    assert len(before) == 2, "a node and a registry"
    project.run("docker", "stop", *before)
    (project.root / ".trainstack" / "kubeconfig" / f"{project.cluster}.yaml").unlink()

    again = project.up()

    assert containers(project) == before
    assert model(project) == weights
    assert again["accuracy"] == up["accuracy"]
    assert " unchanged" in again["output"]
    assert "replaced" not in again["output"]
    assert by_hand in project.run("kubectl", "get", by_hand, "--output", "name").stdout
    for line in (f"node {project.cluster}-control-plane was exited: started", "was missing: written again"):
        assert line in again["output"], "it says what it did"


def test_plain_pulumi_does_not_replace_a_cluster_that_holds_what_is_not_ours(
    project: Project, up: dict[str, str], by_hand: str
) -> None:
    before, committed = containers(project), project.stack_file.read_text()
    project.configure({"trainstack:cluster": {"workers": 1}})
    words = ("pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--stack", project.stack)

    refused = project.run(*words, check=False)
    project.stack_file.write_text(committed)

    assert refused.returncode != 0
    for part in ("workers: 0 -> 1", "configmaps/default/by-hand", "REPLACE_CLUSTER=yes"):
        assert part in refused.stdout + refused.stderr
    assert containers(project) == before, "nothing was touched"


def test_a_cluster_deleted_by_hand_is_repaired(project: Project, up: dict[str, str]) -> None:
    before = model(project)
    runs = set((project.models / "runs").iterdir())
    project.run("kind", "delete", "cluster", "--name", project.cluster)
    assert model(project) == before, "the model outlives its cluster"

    repaired = project.up()

    assert float(repaired["accuracy"]) >= ACCURACY_FLOOR
    assert runs <= set((project.models / "runs").iterdir()), "results of the old run stay"
    assert project.changed_files() == ""
