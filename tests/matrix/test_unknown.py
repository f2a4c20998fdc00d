"""What a slow answer, or one that is missing, must not lead to, asked of a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from standins.tests.apiserver import ApiServer
from standins.tests.flaky import FlakyProxy, changed_config
from tests.matrix.played_operator import PlayedOperator
from tests.matrix.project import AppliedProject

NAMESPACE, CLAIM = "kubeflow", "trainstack-matrix-models"
SECRET = "mnist-env"
MOUNTED = [{"name": "models", "persistentVolumeClaim": {"claimName": CLAIM}}]
SLOW_S = 4.5
"""Longer than the guards waited for an answer once."""


@pytest.fixture
def proxy(api_server: ApiServer) -> Iterator[FlakyProxy]:
    made = FlakyProxy(api_server)
    yield made
    made.close()


@pytest.fixture
def project(
    api_server: ApiServer, operator: PlayedOperator, proxy: FlakyProxy, tmp_path: Path
) -> Iterator[AppliedProject]:
    kubeconfig = tmp_path / "kubeconfig.yaml"
    kubeconfig.write_text(changed_config(api_server, cluster={"server": proxy.url}))
    made = AppliedProject(tmp_path, kubeconfig)
    made.look_at(api_server.kubeconfig)
    made.up()
    yield made
    proxy.slow.clear()
    proxy.failing.clear()
    made.destroy()


def test_a_slow_answer_does_not_hide_who_mounts_the_claim(project: AppliedProject, proxy: FlakyProxy) -> None:
    """It did: the claim was Terminating then, for as long as the pod was there."""
    core: Any = project.core
    spec = {"containers": [{"name": "n", "image": "n"}], "volumes": MOUNTED}
    core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": "theirs"}, "spec": spec})
    try:
        proxy.slow[f"/namespaces/{NAMESPACE}/pods"] = SLOW_S
        project.configured(**{"storage.request": "5Gi"})
        told = project.refused()
        assert "trainstack:storage" in told
        assert "as long as pods of others mount it: theirs" in told
        claim = core.read_namespaced_persistent_volume_claim(CLAIM, NAMESPACE)
        assert claim.metadata.deletion_timestamp is None
    finally:
        core.delete_namespaced_pod("theirs", NAMESPACE, grace_period_seconds=0)


def test_an_object_that_may_not_be_looked_at_is_asked_of_the_user(
    project: AppliedProject, proxy: FlakyProxy
) -> None:
    """The survey of all objects was silent: what was in the way was told by an update that failed half way through."""
    proxy.failing[f"/secrets/{SECRET}"] = 403
    project.configured()
    project.plant("job.env.TOKEN", "planted")
    told = project.refused()
    assert f"this user may not get secrets in namespace {NAMESPACE} (403 Forbidden)" in told
    assert "fix: have the right given, or name a Secret that is there" in told
