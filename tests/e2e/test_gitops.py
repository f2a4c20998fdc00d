"""The folder that is applied after each merge, on a kind cluster: the operator runs its jobs, and they train."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.images import pulled
from tests.e2e.project import Project
from tests.e2e.waiting import HANG_S
from tests.faults.table.cluster import node
from tests.matrix.gitops_agent import AgentFolder
from tests.matrix.gitops_cases import Cases, job_of
from tests.matrix.gitops_cluster import Cluster
from tests.matrix.merged_folder import NAMESPACE, MergedFolder

pytestmark = pytest.mark.slow(reason="some twenty jobs for each of two engines")
FOLDER = f"/var/lib/trainstack/{NAMESPACE}"


@pytest.fixture(scope="module")
def image(project: Project, up: dict[str, str]) -> str:
    return pulled(project)


@pytest.fixture
def another_image(image: str) -> str:
    """The same image by another name: what counts is the digest."""
    name, _, digest = image.partition("@")
    return f"{name}:other@{digest}"


@pytest.fixture(scope="module", params=[MergedFolder, AgentFolder], ids=["kubectl", "Argo CD's engine"])
def applied_by(request: pytest.FixtureRequest) -> type[MergedFolder]:
    """What applies the commits. Each begins with a cluster without objects of the other."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def kubeconfig(project: Project, up: dict[str, str]) -> Path:
    return Path(project.environment()["KUBECONFIG"])


@pytest.fixture(scope="module")
def cluster(project: Project, kubeconfig: Path, applied_by: type[MergedFolder]) -> Iterator[Cluster]:
    made = Cluster(kubeconfig, HANG_S)
    yield made
    made.clear()
    project.run("docker", "exec", node(project), "rm", "-r", FOLDER)


@pytest.fixture
def merged(
    applied_by: type[MergedFolder], cluster: Cluster, kubeconfig: Path, image: str, tmp_path: Path
) -> MergedFolder:
    """A repository whose first commit has been applied, and its job has ended."""
    given: dict[str, Any] = {
        "storage.hostPath": FOLDER,
        "image": {"reference": image},
        "job": {"name": "mnist", "training": {"dataset": "digits", "epochs": 2}},
    }
    made = applied_by(tmp_path, kubeconfig, HANG_S, given)
    made.merge()
    made.apply()
    cluster.settled()
    return made


class TestOnKind(Cases):
    """With the real operator, kubelet and trainer."""


def latest(project: Project) -> str:
    """SHA-256 of the model at the top of the volume."""
    return project.run("docker", "exec", node(project), "sha256sum", f"{FOLDER}/mnist_cnn.pt").stdout.split()[
        0
    ]


def epochs_trained(project: Project, job: str) -> int:
    """How many epochs the pods of this job have trained themselves."""
    log = project.run("kubectl", "logs", f"{job}-master-0", "--namespace", NAMESPACE).stdout
    return log.count("Train Epoch")


def test_the_model_is_that_of_the_merged_commit(
    merged: MergedFolder, cluster: Cluster, project: Project
) -> None:
    first = latest(project)
    merged.merge(**{"job.training.epochs": 3})
    merged.apply()
    cluster.settled()
    assert latest(project) != first
    merged.git("revert", "--no-edit", "HEAD")
    merged.apply()
    cluster.settled()
    assert latest(project) == first
    assert epochs_trained(project, job_of(merged)) == 0, "it has found its finished run"
