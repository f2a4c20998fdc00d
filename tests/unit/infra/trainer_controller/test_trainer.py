"""The controllers of TrainJobs: upstream's manifests as we change them, the wait for them, and the whole program."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from infra import operators, stack_plan
from infra.clusters.discovery import ClusterContents
from infra.config import ConfigError
from infra.config.operator import OperatorApi
from infra.objects.job_kinds import RUNTIME, TRAINJOB
from infra.objects.labels import STACK
from infra.review import folder, gitops
from infra.trainer_controller import patches
from infra.training_operator.patches import CRD_KIND
from infra.training_operator.plan import Plan, plan
from infra.upstream import vendored
from tests.unit.infra.samples import IMAGE, JOB, UPSTREAM, operators_of_both, stack

IMAGES = operators.CONTROLLERS[OperatorApi.V2].images
VARIABLES = [variable for variable, _ in IMAGES.values()]
VALIDATION = "ValidatingWebhookConfiguration"
V2: dict[str, Any] = {"operator": {"api": "v2"}, "job": JOB}


@pytest.fixture(autouse=True)
def _upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendored, "objects", operators_of_both)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def objects() -> list[dict[str, Any]]:
    return operators.manifests(stack(**V2), Plan(crd=True, operator=True, namespaces=()))


def test_the_crds_come_first_and_convert_nothing(objects: list[dict[str, Any]]) -> None:
    crds = [each for each in objects if each["kind"] == CRD_KIND]
    assert objects[: len(crds)] == crds
    assert [each["metadata"]["name"] for each in crds] == list(TRAINJOB.crds)
    assert "conversion" not in crds[0]["spec"]
    assert patches.INJECTED not in crds[0]["metadata"]["annotations"]


def test_all_goes_into_the_operators_namespace(objects: list[dict[str, Any]]) -> None:
    assert "Namespace" not in {each["kind"] for each in objects}
    for each in objects:
        given = each["metadata"].get("namespace")
        assert given == (None if each["kind"] in patches.CLUSTER_WIDE else "kubeflow"), each
        assert each["metadata"]["labels"][STACK] == "dev"
    assert '"jobset-system"' not in json.dumps(objects)
    (binding,) = [each for each in objects if each["kind"] == "ClusterRoleBinding"]
    assert binding["subjects"][0]["namespace"] == "kubeflow"


def test_what_is_being_deleted_needs_no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a TrainJob that is deleted after its runtime keeps its finalizer, and stays."""
    monkeypatch.undo()
    objects = operators.manifests(stack(**V2), Plan(crd=True, operator=True, namespaces=()))
    hooks = [hook for each in objects if each["kind"] == VALIDATION for hook in each["webhooks"]]
    conditions = {hook["name"]: hook.get("matchConditions") for hook in hooks}
    assert {name for name, given in conditions.items() if given == [patches.UNLESS_DELETED]} == {
        f"validator.{kind}.trainer.kubeflow.org"
        for kind in ("clustertrainingruntime", "trainingruntime", "trainjob")
    }
    for hook in hooks:
        if hook.get("matchConditions"):
            assert all("DELETE" not in rule["operations"] for rule in hook["rules"]), "there, object is null"


@pytest.mark.parametrize(
    ("cluster", "operator", "expected"),
    [
        ({}, {}, True),
        ({}, {"install": "always"}, True),
        ({}, {"api": "v1"}, False),
        ({}, {"install": "never"}, False),
        ({"kind": "microk8s"}, {}, False),
        ({"kind": "existing"}, {"install": "always"}, False),
    ],
)
def test_only_a_trainer_that_reaches_the_issuer_of_tokens_takes_reports(
    monkeypatch: pytest.MonkeyPatch, cluster: dict[str, Any], operator: dict[str, Any], expected: bool
) -> None:
    """As it was published, with the port that it serves: another one could not even start."""
    monkeypatch.undo()
    asked = stack(operator={"api": "v2", **operator}, cluster=cluster, image={"reference": IMAGE})
    assert asked.operator.takes_reports(asked.cluster) is expected
    planned = Plan(crd=True, operator=True, namespaces=())
    found = operators.installed(operators.CONTROLLERS[OperatorApi.V2], asked, planned, True, True)
    named = {(each["kind"], each["metadata"]["name"]): each for each in found}
    settings = yaml.safe_load(named["ConfigMap", patches.SETTINGS]["data"][patches.SETTINGS_FILE])
    assert settings.get("featureGates", {}) == ({patches.REPORTS_GATE: True} if expected else {})
    assert settings["statusServer"]["port"] == patches.REPORTS_PORT
    (port,) = [
        each for each in named["Service", patches.TRAINER]["spec"]["ports"] if each["name"] == "status-server"
    ]
    assert port["port"] == patches.REPORTS_PORT
    pod = named["Deployment", patches.TRAINER]["spec"]["template"]["spec"]
    assert pod.get("terminationGracePeriodSeconds") == (patches.REPORTS_END_S if expected else None)
    (manager,) = pod["containers"]
    assert {"name": port["targetPort"], "containerPort": patches.REPORTS_PORT, "protocol": "TCP"} in manager[
        "ports"
    ]


@pytest.mark.parametrize(("crd", "operator"), [(True, False), (False, True), (False, False)])
def test_only_what_is_missing_is_installed(crd: bool, operator: bool) -> None:
    found = operators.manifests(stack(**V2), Plan(crd=crd, operator=operator, namespaces=()))
    assert {each["kind"] == CRD_KIND for each in found} == ({True} if crd else {False} if operator else set())


def test_a_jobset_that_is_there_is_used_and_left_as_it_is() -> None:
    planned = plan(stack(**V2), ClusterContents(beneath=True, namespaces=frozenset({"kubeflow"})))
    assert planned == Plan(crd=True, operator=True, namespaces=(), beneath=False)
    found = {each["metadata"]["name"] for each in operators.manifests(stack(**V2), planned)}
    assert found.isdisjoint(each["metadata"]["name"] for each in UPSTREAM["jobset"])
    assert {patches.TRAINER, *TRAINJOB.crds[1:]} <= found


def test_a_review_shows_runtime_and_job_and_no_definition() -> None:
    v2 = stack(**V2)
    groups = folder.groups(v2)
    (job,) = v2.jobs
    found = [(each["kind"], each["metadata"]["name"]) for each in groups[gitops.JOBS]]
    assert found[-2:] == [(RUNTIME, job.name), (TRAINJOB.kind, job.name)]
    assert CRD_KIND not in {each["kind"] for objects in groups.values() for each in objects}


def test_a_review_holds_the_jobs_of_a_runtime_to_the_policies() -> None:
    v2 = stack(**V2)
    planned = stack_plan.of(v2, plan(v2, ClusterContents()), image="trainer:latest")
    found = [each.manifest for each in planned]
    with pytest.raises(ConfigError, match=f"Job/kubeflow/{JOB['name']}-node-0: .*trainer:latest"):
        stack_plan.ensure_allowed(v2, found)
