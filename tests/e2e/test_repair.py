"""What somebody stopped is started, what somebody deleted is made again, and nothing is lost unasked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e import engines
from tests.e2e.project import Project
from tests.faults.table.trial import Trial

ACCURACY_FLOOR = 0.95


def containers(project: Project) -> dict[str, str]:
    """Name -> id of the cluster's nodes and its registry, running or not."""
    listed = project.run("docker", "ps", "--all", "--no-trunc", "--format", "{{.Names}} {{.ID}}").stdout
    pairs = (line.split() for line in listed.splitlines())
    return {name: container for name, container in pairs if name.startswith(f"{project.cluster}-")}


def model(project: Project) -> str:
    return hashlib.sha256((project.models / "mnist_cnn.pt").read_bytes()).hexdigest()


def pulls(project: Project) -> bool:
    """Whether the node's containerd fetches the trainer image from the cluster's registry."""
    job = project.get("pytorchjob", "pytorch-simple")
    pod = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    pull = ("ctr", "--namespace", "k8s.io", "images", "pull", "--hosts-dir", "/etc/containerd/certs.d")
    node = f"{project.cluster}-control-plane"
    return project.run("docker", "exec", node, *pull, pod["containers"][0]["image"]).returncode == 0


@pytest.fixture(scope="module")
def by_hand(project: Project, up: dict[str, str]) -> Iterator[str]:
    """A ConfigMap that somebody put into the cluster."""
    project.run("kubectl", "create", "configmap", "by-hand", "--namespace", "default")
    yield "configmap/by-hand"
    project.run("kubectl", "delete", "configmap", "by-hand", "--namespace", "default", check=False)


@pytest.mark.row("cluster-stopped")
def test_a_stopped_cluster_is_started_with_all_that_it_held(
    project: Project, up: dict[str, str], by_hand: str, trial: Trial
) -> None:
    before, weights = containers(project), model(project)
    assert len(before) == 2, "a node and a registry"
    project.run("docker", "stop", *before)
    (project.root / ".trainstack" / "kubeconfig" / f"{project.cluster}.yaml").unlink()
    trial.strike("")

    again = project.up()

    trial.recovered()
    assert containers(project) == before
    assert model(project) == weights
    assert again["accuracy"] == up["accuracy"]
    assert " unchanged" in again["output"]
    assert "replaced" not in again["output"]
    assert by_hand in project.run("kubectl", "get", by_hand, "--output", "name").stdout
    assert pulls(project), "the restarted node still logs in to the restarted registry"
    for line in (f"node {project.cluster}-control-plane was exited: started", "was missing: written again"):
        assert line in again["output"], "it says what it did"


@pytest.mark.slow(reason="makes the node image in a second engine")
def test_another_engine_is_no_proof_that_the_cluster_is_gone(
    project: Project, up: dict[str, str], by_hand: str
) -> None:
    before = containers(project)
    with engines.another() as host:
        refused = project.make("up", f"DOCKER_HOST={host}")
    assert refused.returncode != 0
    assert f"the engine at {host} answers now; nothing was touched" in refused.stdout, refused.stdout
    assert "fix: export DOCKER_HOST=" in refused.stdout

    again = project.up()

    assert " unchanged" in again["output"]
    assert containers(project) == before
    assert by_hand in project.run("kubectl", "get", by_hand, "--output", "name").stdout


# What the refusal calls the change -> what changes in section `cluster`; None takes a key away.
LOSING: dict[str, dict[str, Any]] = {
    "workers: 0 -> 1": {"workers": 1},
    "cluster.name: ": {"name": "another"},
    "cluster.kind: kind -> existing": {"kind": "existing", "name": None},
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("reason", LOSING)
def test_plain_pulumi_does_not_lose_a_cluster_that_holds_what_is_not_ours(
    project: Project, up: dict[str, str], by_hand: str, reason: str
) -> None:
    before, committed = containers(project), project.stack_file.read_text()
    settings = yaml.safe_load(committed)
    changed = settings["config"]["trainstack:cluster"] | LOSING[reason]
    settings["config"]["trainstack:cluster"] = {
        key: each for key, each in changed.items() if each is not None
    }
    settings["config"]["trainstack:image"] = {
        "repository": "registry.example/trainer"
    }  # the existing one asks for it
    project.stack_file.write_text(yaml.safe_dump(settings, sort_keys=False))
    words = ("pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--stack", project.stack)

    refused = project.run(*words, check=False)
    project.stack_file.write_text(committed)

    assert refused.returncode != 0
    for part in (reason, "configmaps/default/by-hand", "REPLACE_CLUSTER=yes"):
        assert part in refused.stdout + refused.stderr
    assert containers(project) == before, "nothing was touched"


@pytest.mark.slow(reason="makes the cluster anew, as the runbook cluster-gone does in `make test-full`")
@pytest.mark.row("cluster-deleted")
def test_a_cluster_deleted_by_hand_is_repaired(project: Project, up: dict[str, str], trial: Trial) -> None:
    before = model(project)
    runs = set((project.models / "runs").iterdir())
    project.run("kind", "delete", "cluster", "--name", project.cluster)
    trial.strike("")
    assert model(project) == before, "the model outlives its cluster"

    repaired = project.up()

    trial.recovered()
    assert float(repaired["accuracy"]) >= ACCURACY_FLOOR
    assert runs <= set((project.models / "runs").iterdir()), "results of the old run stay"
    assert project.changed_files() == ""
