"""The folder that is applied after each merge, as docs/review.md says, on an API server without nodes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from infra.objects.pytorchjob import CRD
from infra.review import folder, gitops
from standins.tests.apiserver import ApiServer
from tests.matrix.gitops_agent import AgentFolder
from tests.matrix.gitops_cases import Cases
from tests.matrix.gitops_cluster import Cluster
from tests.matrix.judging import by_key
from tests.matrix.merged_folder import MergedFolder
from tests.matrix.played_operator import PlayedOperator

ENGINES = [
    pytest.param(MergedFolder, id="kubectl"),
    pytest.param(
        AgentFolder,
        id="Argo CD's engine",
        marks=pytest.mark.slow(reason="five minutes of compiling where it is not cached"),
    ),
]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> type[MergedFolder]:
    """What applies the commits. Each begins with a cluster without objects of the other."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def cluster(api_server: ApiServer, operator: PlayedOperator, engine: type[MergedFolder]) -> Iterator[Cluster]:
    made = Cluster(api_server.kubeconfig)
    yield made
    made.clear()


@pytest.fixture
def merged(
    engine: type[MergedFolder], cluster: Cluster, api_server: ApiServer, tmp_path: Path
) -> MergedFolder:
    """A repository whose first commit has been applied."""
    made = engine(tmp_path, api_server.kubeconfig)
    made.merge()
    made.apply()
    cluster.settled()
    return made


@pytest.fixture
def another_image() -> str:
    return "localhost:5000/trainer:2"


class TestOnAnApiServer(Cases):
    """Pods and the operator are played."""


@pytest.mark.parametrize("stack", sorted(each.name for each in (folder.STACKS / folder.GITOPS).iterdir()))
def test_a_committed_kustomization_builds_the_folders_objects(stack: str) -> None:
    """With the CRD where the stack brings the operator; no engine prunes it, since all jobs would go with it."""
    top = folder.STACKS / folder.GITOPS / stack
    done = subprocess.run(["kubectl", "kustomize", top], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built = by_key(yaml.safe_load_all(done.stdout))
    crd = built.pop(f"CustomResourceDefinition//{CRD}", None)
    assert built == by_key(yaml.safe_load(each.read_text()) for each in top.glob("*/*.yaml"))
    assert (crd is not None) is (top / gitops.OPERATOR).exists()
    if crd is not None:
        assert gitops.NEVER_PRUNED.keys() <= crd["metadata"]["annotations"].keys()
        assert "Prune=false,Delete=false" in crd["metadata"]["annotations"]["argocd.argoproj.io/sync-options"]
