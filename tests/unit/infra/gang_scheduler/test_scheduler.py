"""The second scheduler: upstream's manifests as we change them, and what the whole program registers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from infra import operators, stack_plan
from infra.clusters.discovery import ClusterContents, gang_schedulers
from infra.config import Stack
from infra.gang_scheduler import patches
from infra.objects.job_kinds import GANG_CRDS, GANG_SCHEDULER, POD_GROUP
from infra.objects.labels import STACK
from infra.review import folder, gitops
from infra.training_operator.patches import CRD_KIND
from infra.training_operator.plan import Plan, plan
from infra.upstream import vendored
from tests.unit.infra.recorder import REFERENCE, Recorder
from tests.unit.infra.samples import JOB, stack, upstreams
from tests.unit.infra.test_program import configured, recorder, run_program

__all__ = ["recorder"]

GANG: dict[str, Any] = {"operator": {"gang": "scheduler-plugins"}, "job": JOB}


@pytest.fixture(autouse=True)
def _upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendored, "objects", upstreams)
    for name in operators.SCHEDULER_IMAGES.values():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def asked() -> Stack:
    return stack(**GANG)


@pytest.fixture
def objects(asked: Stack) -> list[dict[str, Any]]:
    return operators.scheduler_manifests(asked, plan(asked, ClusterContents()))


def programs(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]
        for each in objects
        if each["kind"] == "Deployment" and each["metadata"]["name"] in operators.SCHEDULER_IMAGES
    }


def test_both_crds_come_first(objects: list[dict[str, Any]]) -> None:
    assert {each["metadata"]["name"] for each in objects if each["kind"] == CRD_KIND} == {*GANG_CRDS}
    assert [each["kind"] for each in objects[: len(GANG_CRDS)]] == [CRD_KIND] * len(GANG_CRDS)


def test_a_crd_of_somebody_elses_is_left_as_it_is(asked: Stack) -> None:
    planned = plan(asked, ClusterContents(gang_definitions=frozenset(GANG_CRDS[:1])))
    found = {each["metadata"]["name"] for each in operators.scheduler_manifests(asked, planned)}
    assert GANG_CRDS[0] not in found
    assert {GANG_CRDS[1], GANG_SCHEDULER} <= found


def test_a_stack_that_installs_none_reads_nothing(asked: Stack) -> None:
    assert operators.scheduler_manifests(asked, Plan(crd=True, operator=True, namespaces=())) == []


def test_all_goes_into_the_operators_namespace_but_what_is_kubernetes_own(asked: Stack) -> None:
    there = replace(asked, operator=asked.operator.model_copy(update={"namespace": "gangs"}))
    found = operators.scheduler_manifests(there, plan(there, ClusterContents()))
    spaces = {each["metadata"]["namespace"] for each in found if "namespace" in each["metadata"]}
    assert spaces == {"gangs", "kube-system"}
    assert {who["namespace"] for each in found for who in each.get("subjects", ())} == {"gangs"}


def test_all_is_labelled_confined_and_allowed(objects: list[dict[str, Any]], asked: Stack) -> None:
    for each in objects:
        assert each["metadata"]["labels"][STACK] == "dev"
        assert "::" not in each["metadata"]["name"], "it would break Pulumi's URN"
    found = programs(objects)
    assert {name: each["image"] for name, each in found.items()} == patches.IMAGES
    for each in found.values():
        assert each["resources"]["limits"]
        assert each["securityContext"]["readOnlyRootFilesystem"]
        assert each["readinessProbe"]["periodSeconds"] == 1
        assert "command" not in each
    assert "hostNetwork" not in str(objects), "the server leaves out what is false"
    stack_plan.ensure_allowed(asked, objects)


def test_the_profile_has_the_name_that_pods_ask_for(objects: list[dict[str, Any]]) -> None:
    (configured,) = [each for each in objects if each["kind"] == "ConfigMap"]
    found = yaml.safe_load(configured["data"][patches.FILE])
    assert [each["schedulerName"] for each in found["profiles"]] == [GANG_SCHEDULER]
    assert "clientConnection" not in found
    assert found["profiles"][0]["plugins"] == patches.profile()["profiles"][0]["plugins"]


def test_the_scheduler_alone_is_told_when_to_try_again(objects: list[dict[str, Any]]) -> None:
    found = {name: each.get("args") for name, each in programs(objects).items()}
    assert found == {
        GANG_SCHEDULER: [f"--config=/etc/kubernetes/{patches.FILE}", patches.RETRY],
        patches.CONTROLLER: None,
    }


def test_another_profile_starts_the_scheduler_anew(objects: list[dict[str, Any]]) -> None:
    other = patches.patched(
        vendored.objects(patches.PROJECT), {**patches.profile(), "parallelism": 4}, "dev", "kubeflow"
    )
    pods = [
        {
            each["metadata"]["name"]: each["spec"]["template"]["metadata"]
            for each in found
            if each["kind"] == "Deployment"
        }
        for found in (objects, other)
    ]
    assert pods[0][GANG_SCHEDULER] != pods[1][GANG_SCHEDULER]
    assert pods[0][patches.CONTROLLER] == pods[1][patches.CONTROLLER]


@pytest.mark.parametrize(
    ("image", "stack_label", "found"),
    [
        ("registry.k8s.io/scheduler-plugins/kube-scheduler:v0.33.5", None, ("gangs",)),
        ("registry.k8s.io/scheduler-plugins/kube-scheduler:v0.33.5", "dev", ()),
        ("registry.k8s.io/kube-scheduler:v1.34.0", None, ()),
    ],
)
def test_the_schedulers_that_are_there_are_known_by_their_image(
    image: str, stack_label: str | None, found: tuple[str, ...]
) -> None:
    labels = {STACK: stack_label} if stack_label else {}
    pod = {"spec": {"containers": [{"image": image}]}}
    there = {"metadata": {"name": "gangs", "labels": labels}, "spec": {"template": pod}}

    def is_ours(each: dict[str, Any]) -> bool:
        return bool(each["metadata"]["labels"].get(STACK) == "dev")

    assert gang_schedulers(is_ours, [there]) == found


def test_who_may_not_ask_is_taken_to_have_upstreams() -> None:
    assert gang_schedulers(lambda _: False, None) == (GANG_SCHEDULER,)


def test_a_review_has_the_scheduler_in_the_stacks_own_folder(asked: Stack) -> None:
    groups = folder.groups(asked)
    named = {name: {each["metadata"]["name"] for each in objects} for name, objects in groups.items()}
    parts = {GANG_SCHEDULER, *GANG_CRDS}
    assert parts <= named.pop(gitops.OPERATOR)
    assert not any(parts & names for names in named.values())
    assert all(name.startswith(f"{folder.RENDERED}/{asked.name}/") for name in folder.files(asked)), (
        "others' stacks share nothing of it"
    )


def test_the_whole_program_registers_the_scheduler_before_operator_and_job(
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in operators.SCHEDULER_IMAGES.values():
        monkeypatch.setenv(variable, "trainstack/scheduler:abc")
    configured(**GANG)
    run_program()
    made = recorder.manifests()
    assert {each["image"] for each in programs(list(made.values())).values()} == {REFERENCE}
    operator = made["Deployment/training-operator"]["spec"]["template"]["spec"]["containers"][0]
    assert f"--gang-scheduler-name={GANG_SCHEDULER}" in operator["args"]
    job = made[f"PyTorchJob/{JOB['name']}"]
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        assert replica["template"]["spec"]["schedulerName"] == GANG_SCHEDULER
        assert replica["template"]["metadata"]["labels"][POD_GROUP] == JOB["name"]
    titles = list(made)
    order = [f"{CRD_KIND}/{GANG_CRDS[0]}", "Deployment/training-operator", f"PyTorchJob/{JOB['name']}"]
    assert [each for each in titles if each in order] == order
