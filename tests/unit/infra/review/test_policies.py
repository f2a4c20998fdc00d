"""Each policy lets our own manifests pass, and names the fix where a stack breaks it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from infra import volumes
from infra.clusters import namespaces
from infra.job.manifest import manifest
from infra.review import policies
from infra.training_operator.patches import patched
from storage.manifests import manifests as volume_manifests
from tests.unit.infra.samples import OVERLAY, job_context, stack

RULES = policies.Rules(("/var/lib/trainstack",), frozenset({"busybox:1.37"}))
Edit = Callable[[dict[str, Any]], Any]


def ours() -> dict[str, dict[str, Any]]:
    known = stack()
    objects = [
        namespaces.manifest(known, "kubeflow"),
        *(each for volume in volumes.volumes(known) for each in volume_manifests(volume)),
        manifest(known.jobs[0], job_context()),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "reader"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        },
    ]
    return {each["kind"]: each for each in objects}


def container(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    return found


CASES: dict[str, tuple[str, Edit, str, str]] = {
    "image by tag": (
        "PyTorchJob",
        lambda job: container(job).update(image="trainer:latest"),
        "trainer:latest has no digest",
        "unpinned: true",
    ),
    "no CPU limit": (
        "PyTorchJob",
        lambda job: container(job)["resources"]["limits"].pop("cpu"),
        "no cpu limit",
        "cpu",
    ),
    "no memory limit": (
        "PyTorchJob",
        lambda job: container(job)["resources"]["limits"].pop("memory"),
        "no memory limit",
        "memory",
    ),
    "root": (
        "PyTorchJob",
        lambda job: container(job)["securityContext"].update(runAsUser=0),
        "may run as root",
        "runAsNonRoot: true",
    ),
    "no deadline": (
        "PyTorchJob",
        lambda job: job["spec"]["runPolicy"].pop("activeDeadlineSeconds"),
        "activeDeadlineSeconds is not set",
        "activeDeadlineSeconds",
    ),
    "no restart policy": (
        "PyTorchJob",
        lambda job: job["spec"]["pytorchReplicaSpecs"]["Master"].pop("restartPolicy"),
        "no restartPolicy",
        "restartPolicy: OnFailure",
    ),
    "models may be deleted": (
        "PersistentVolume",
        lambda volume: volume["spec"].update(persistentVolumeReclaimPolicy="Delete"),
        "may delete the models",
        "reclaimPolicy: Retain",
    ),
    "hostPath elsewhere": (
        "PersistentVolume",
        lambda volume: volume["spec"]["hostPath"].update(path="/var/lib/trainstack/../../etc"),
        "is not below /var/lib/trainstack",
        "allowedRoots",
    ),
    "hostPath of a pod": (
        "PyTorchJob",
        lambda job: job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"].append(
            {"name": "x", "hostPath": {"path": "/etc"}}
        ),
        "hostPath /etc",
        "move it there",
    ),
    "every right": (
        "ClusterRole",
        lambda role: role["rules"].append({"apiGroups": ["*"], "resources": ["pods"], "verbs": ["get"]}),
        "every one of apiGroups",
        "list the apiGroups",
    ),
    "namespace without a level": (
        "Namespace",
        lambda namespace: namespace["metadata"]["labels"].clear(),
        "no Pod Security level",
        "enforce: baseline",
    ),
}


def test_our_own_manifests_pass() -> None:
    assert policies.violations(ours().values(), RULES) == []


def test_the_patched_operator_passes() -> None:
    reference = "ghcr.io/kubeflow/training-v1/training-operator@sha256:" + "0" * 64
    assert policies.violations(patched(OVERLAY, "dev", reference, "busybox:1.37"), RULES) == []


@pytest.mark.parametrize("case", CASES)
def test_a_violation_names_the_fix(case: str) -> None:
    kind, edit, problem, fix = CASES[case]
    broken = copy.deepcopy(ours()[kind])
    edit(broken)
    found = policies.violations([broken], RULES)
    assert len(found) == 1, found
    assert problem in found[0].problem
    assert fix in found[0].fix
    assert found[0].object.startswith(kind)


def test_every_policy_has_a_violating_case() -> None:
    broken = []
    for kind, edit, _, _ in CASES.values():
        each = copy.deepcopy(ours()[kind])
        edit(each)
        broken.append(each)
    for policy in policies.POLICIES:
        assert any(list(policy(each, RULES)) for each in broken), policy.__name__


def test_an_unpinned_image_passes_where_the_stack_says_so() -> None:
    job = ours()["PyTorchJob"]
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["containers"][0]["image"] = "trainer:latest"
    rules = policies.Rules(RULES.allowed_roots, frozenset({"trainer:latest"}))
    assert policies.violations([job], rules) == []
