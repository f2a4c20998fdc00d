"""The folder that is applied after each merge, on kind clusters: an operator runs its jobs, and they train."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.config.operator import OperatorApi
from tests.e2e import clones
from tests.e2e.images import pulled
from tests.e2e.project import Project
from tests.e2e.waiting import HANG_S
from tests.faults.table.cluster import node
from tests.matrix.gitops_agent import AgentFolder
from tests.matrix.gitops_cases import RANK0, Cases, job_of
from tests.matrix.gitops_cluster import Cluster
from tests.matrix.merged_folder import NAMESPACE, MergedFolder
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(
    reason="some twenty jobs for each of two engines and APIs, and a cluster for v2"
)
FOLDER = f"/var/lib/trainstack/{NAMESPACE}"
# No other test on the same volume asks for so many: a run that is there already is taken, and not trained again.
EPOCHS = 5


@pytest.fixture(scope="module", params=OperatorApi)
def api(request: pytest.FixtureRequest) -> OperatorApi:
    """That of the merged stack's job."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def standing(request: pytest.FixtureRequest, api: OperatorApi, engine: Engine) -> Iterator[Project]:
    """A clone whose cluster has the operator: the one that others use, too, or with Trainer one of its own."""
    if api is OperatorApi.V1:
        request.getfixturevalue("up")
        yield request.getfixturevalue("project")
        return
    with clones.temporary("gitops-v2") as made:
        short = {"dataset": "digits", "epochs": 1}
        made.configure({"trainstack:operator": {"api": api.value}, "trainstack:job": {"training": short}})
        made.up()
        yield made


@pytest.fixture(scope="module")
def image(standing: Project, api: OperatorApi) -> str:
    return pulled(standing, api=api)


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
def kubeconfig(standing: Project) -> Path:
    return Path(standing.environment()["KUBECONFIG"])


@pytest.fixture(scope="module")
def cluster(
    standing: Project, kubeconfig: Path, api: OperatorApi, applied_by: type[MergedFolder]
) -> Iterator[Cluster]:
    made = Cluster(kubeconfig, api, patience_s=HANG_S)
    yield made
    made.clear()
    standing.run("docker", "exec", node(standing), "rm", "-r", FOLDER)


@pytest.fixture
def merged(
    applied_by: type[MergedFolder],
    cluster: Cluster,
    kubeconfig: Path,
    api: OperatorApi,
    image: str,
    tmp_path: Path,
) -> MergedFolder:
    """A repository whose first commit has been applied, and its job has ended."""
    given: dict[str, Any] = {
        "operator.api": api.value,
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


def epochs_trained(project: Project, merged: MergedFolder) -> int:
    """How many epochs the pods of the merged job have trained themselves."""
    listed = project.run(
        "kubectl", "get", "pods", "--namespace", NAMESPACE, "--output", "name"
    ).stdout.split()
    (rank0,) = [pod for pod in listed if f"/{job_of(merged)}-{RANK0[merged.kind.kind]}" in pod]
    return project.run("kubectl", "logs", rank0, "--namespace", NAMESPACE).stdout.count("Train Epoch")


def test_the_model_is_that_of_the_merged_commit(
    merged: MergedFolder, cluster: Cluster, standing: Project
) -> None:
    first = latest(standing)
    merged.merge(**{"job.training.epochs": EPOCHS})
    merged.apply()
    cluster.settled()
    assert latest(standing) != first
    assert epochs_trained(standing, merged) > 0
    merged.git("revert", "--no-edit", "HEAD")
    merged.apply()
    cluster.settled()
    assert latest(standing) == first
    assert epochs_trained(standing, merged) == 0, "it has found its finished run"
