"""A job in a namespace whose API server refuses what breaks a rule, with the operator in another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.guard.policy_rules import RULES
from tests.e2e import clones
from tests.e2e.project import Project
from tests.e2e.test_published import MANIFESTS
from tests.matrix.kind_project import UNCHANGED

pytestmark = pytest.mark.slow(reason="a cluster of its own, and a training in it")
NAMESPACE, OPERATORS = "guarded", "training-operator"
GUARDED = {
    "trainstack:cluster": {"namespace": NAMESPACE, "podSecurity": "restricted", "guard": "deny"},
    "trainstack:operator": {"namespace": OPERATORS},
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[Project, dict[str, str]]]:
    """The clone, and the closing lines of its `make up`."""
    with clones.temporary("guarded") as clone:
        clone.configure(GUARDED)
        yield clone, clone.up()


def names(project: Project, kind: str, namespace: str) -> set[str]:
    listed = project.get(kind, namespace=namespace)["items"]
    return {each["metadata"]["name"] for each in listed}


def test_our_own_job_succeeds_there(guarded: tuple[Project, dict[str, str]]) -> None:
    """The pods that the operator makes of it, with its own init container, are let in."""
    project, lines = guarded
    assert lines["job"] == f"{NAMESPACE}/pytorch-simple Succeeded"
    assert Path(lines["model"]).is_file()
    assert UNCHANGED.search(project.up()["output"]), "a second make up changes nothing"


def test_the_webhooks_key_is_not_where_the_jobs_are(guarded: tuple[Project, dict[str, str]]) -> None:
    project, _ = guarded
    assert "training-operator" in names(project, "deployments", OPERATORS)
    assert "training-operator-webhook-cert" in names(project, "secrets", OPERATORS)
    assert names(project, "secrets", NAMESPACE) == set()
    assert names(project, "networkpolicies", NAMESPACE) == {"pytorch-simple"}


def test_a_published_manifest_is_refused_there(
    guarded: tuple[Project, dict[str, str]], tmp_path: Path
) -> None:
    project, _ = guarded
    file = tmp_path / "job.yaml"
    published = (MANIFESTS / "pytorch-simple.yaml").read_text()
    file.write_text(published.replace("IMAGE", "trainer:latest").replace("kubeflow\n", f"{NAMESPACE}\n"))
    done = project.run("kubectl", "apply", "--filename", str(file), check=False)
    assert done.returncode == 1, done.stdout
    assert RULES["image by digest"].demand in done.stderr
    assert "published-simple" not in names(project, "pytorchjobs", NAMESPACE)
