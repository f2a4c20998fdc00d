"""Keys that reach another cluster: the stack moves from one API server to another, and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cluster_kinds import ClusterKind
from infra.config.changes import outcome
from infra.config.section import Outcome
from standins.tests.apiserver import ApiServer
from standins.tests.conftest import client_of
from standins.tests.kubelet import Kubelet
from tests.matrix.judging import Objects, job_specs, lasting, outcome_of, uids
from tests.matrix.played_operator import PlayedOperator
from tests.matrix.project import AppliedProject

pytestmark = pytest.mark.slow(reason="a second API server, and four updates for each key")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A second API server with controllers, kubelet and operator."""
    server = ApiServer(tmp_path_factory.mktemp("other"), controllers=True)
    server.start()
    try:
        kubelet, operator = Kubelet(client_of(server), server.certificates), PlayedOperator(server.kubeconfig)
        kubelet.start()
        operator.start()
        yield server
        operator.stop()
        kubelet.stop()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def both(api_server: ApiServer, other: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with the contexts `first`, which is the current one, and `second`."""
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": "first"}
    for name, server in (("first", api_server), ("second", other)):
        given = yaml.safe_load(server.kubeconfig.read_text())
        context = {"cluster": name, "user": name}
        merged.setdefault("contexts", []).append({"name": name, "context": context})
        merged.setdefault("clusters", []).append({**given["clusters"][0], "name": name})
        merged.setdefault("users", []).append({**given["users"][0], "name": name})
    file = tmp_path_factory.mktemp("both") / "kubeconfig.yaml"
    file.write_text(yaml.safe_dump(merged))
    return file


@pytest.mark.parametrize("key", ["cluster.kubeconfig", "cluster.context"])
def test_the_stack_moves_and_comes_back(
    project: AppliedProject, api_server: ApiServer, other: ApiServer, both: Path, key: str
) -> None:
    given: dict[str, Any] = {"cluster.kubeconfig": str(both)}
    changed = {**given, key: str(other.kubeconfig) if key == "cluster.kubeconfig" else "second"}
    project.stand(**given)
    before = project.settled()

    project.up(**changed)

    assert ours(project.settled()) == set(), "nothing of ours stays behind"
    project.look_at(other.kubeconfig)
    after = project.settled()
    assert outcome_of(before, after) is outcome(key, ClusterKind.EXISTING) is Outcome.CLUSTER_REPLACED
    assert job_specs(after) == project.job_specs(**changed)
    project.up("--expect-no-changes", **changed)
    assert uids(project.settled()) == uids(after)

    project.up(**given)

    assert ours(project.settled()) == set()
    project.look_at(api_server.kubeconfig)
    assert lasting(project.settled()) == lasting(before)


def ours(found: Objects) -> set[str]:
    return {key for key in found if not key.startswith("Namespace/")}
