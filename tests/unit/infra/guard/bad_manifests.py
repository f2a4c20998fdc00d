"""Manifests that break one rule each, for both readings of the rules: the review's and an API server's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infra import stack_plan, volumes
from infra.config import Stack
from infra.guard.rule_scopes import KINDS
from infra.job.manifest import manifest
from infra.objects.labels import stack_labels
from storage.manifests import manifests as volume_manifests
from tests.unit.infra.samples import job_context

Manifest = dict[str, Any]
Edit = Callable[[Manifest], Any]
SELECTED = {"app": "guarded"}
# What a kind needs beside its pods.
REQUIRED: dict[str, Manifest] = {
    "ReplicationController": {"selector": SELECTED},
    "Job": {},
    "CronJob": {"schedule": "0 0 1 1 *"},
    "StatefulSet": {"selector": {"matchLabels": SELECTED}, "serviceName": "guarded"},
}


def good(stack: Stack) -> dict[str, Manifest]:
    """Kind -> an object of it in the stack's namespace that keeps to all rules."""
    namespace = stack.cluster.namespace
    job = manifest(stack.jobs[0], job_context(namespace=namespace, claim=stack.claim))
    right = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "rules": [right]}
    labels = stack_labels(stack.name)
    objects = [
        stack_plan.namespace(stack, namespace),
        *volume_manifests(volumes.models(stack)),
        {**role, "kind": "ClusterRole", "metadata": {"name": f"{namespace}-reader", "labels": labels}},
        {**role, "kind": "Role", "metadata": {"name": "reader", "namespace": namespace}},
        *(running(kind, namespace, pod_of(job)) for kind, known in KINDS.items() if known.pod),
        job,
    ]
    return {each["kind"]: each for each in objects}


def running(kind: str, namespace: str, pod: Manifest) -> Manifest:
    """An object of `kind` that runs this pod."""
    known = KINDS[kind]
    assert known.pod
    name = {"name": f"guarded-{kind.lower()}", "namespace": namespace}
    ends = {"Job": "Never", "CronJob": "Never"}
    spec: Manifest = {**pod, "restartPolicy": ends.get(kind, "Always")}
    if kind not in ("Pod", *ends):
        spec.pop("activeDeadlineSeconds")  # such a controller's pods never end
    if kind != "Pod":
        spec = {"template": {"metadata": {"labels": SELECTED}, "spec": spec}}
        if kind == "CronJob":
            spec = {"jobTemplate": {"spec": spec}}
        spec |= REQUIRED.get(kind, {"selector": {"matchLabels": SELECTED}})
    group = f"{known.group}/" if known.group else ""
    return {"apiVersion": f"{group}{known.version}", "kind": kind, "metadata": name, "spec": spec}


def pod_of(each: Manifest) -> Manifest:
    """The spec of an object's pods; of a PyTorchJob its master's."""
    found: Any = copy.deepcopy(each)
    path = KINDS[each["kind"]].pod or ("spec", "pytorchReplicaSpecs", "Master", "template", "spec")
    for word in path:
        found = found[word]
    return dict(found)


def _master(job: Manifest) -> Manifest:
    found: Manifest = job["spec"]["pytorchReplicaSpecs"]["Master"]
    return found


def _container(job: Manifest) -> Manifest:
    found: Manifest = _master(job)["template"]["spec"]["containers"][0]
    return found


@dataclass(frozen=True)
class Bad:
    """An object of `kind` that breaks `rule` alone once `edit` has changed it; a review says `problem` and `fix`."""

    rule: str
    kind: str
    edit: Edit
    problem: str
    fix: str

    def of(self, stack: Stack) -> Manifest:
        """The manifest, for this stack."""
        made = copy.deepcopy(good(stack)[self.kind])
        self.edit(made)
        return made


def _role(kind: str, key: str) -> Bad:
    right = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], key: ["*"]}
    return Bad(
        {"apiGroups": "API groups named", "resources": "resources named", "verbs": "verbs named"}[key],
        kind,
        lambda role: role["rules"].append(right),
        f"every one of {key}",
        f"list the {key}",
    )


JOB = "PyTorchJob"
ROOT = {"runAsUser": 0}
BAD: dict[str, Bad] = {
    "image by tag": Bad(
        "image by digest",
        JOB,
        lambda job: _container(job).update(image="trainer:latest"),
        "trainer:latest has no digest",
        "unpinned: true",
    ),
    "image of an init container by tag": Bad(
        "image by digest",
        JOB,
        lambda job: _master(job)["template"]["spec"].update(
            initContainers=[{**_container(job), "name": "first", "image": "busybox:latest"}]
        ),
        "busybox:latest has no digest",
        "unpinned: true",
    ),
    "no CPU limit": Bad(
        "CPU limit", JOB, lambda job: _container(job)["resources"]["limits"].pop("cpu"), "no cpu limit", "cpu"
    ),
    "no memory limit": Bad(
        "memory limit",
        JOB,
        lambda job: _container(job)["resources"]["limits"].pop("memory"),
        "no memory limit",
        "memory",
    ),
    "root": Bad(
        "not root",
        JOB,
        lambda job: _container(job)["securityContext"].update(ROOT),
        "may run as root",
        "runAsNonRoot: true",
    ),
    "perhaps root": Bad(
        "not root",
        JOB,
        lambda job: _container(job)["securityContext"].update(runAsNonRoot=False),
        "may run as root",
        "runAsNonRoot: true",
    ),
    "no deadline": Bad(
        "deadline",
        JOB,
        lambda job: job["spec"]["runPolicy"].pop("activeDeadlineSeconds"),
        "activeDeadlineSeconds is not set",
        "activeDeadlineSeconds",
    ),
    "no back-off limit": Bad(
        "back-off limit",
        JOB,
        lambda job: job["spec"]["runPolicy"].pop("backoffLimit"),
        "backoffLimit is not set",
        "backoffLimit",
    ),
    "no restart policy": Bad(
        "restart policy",
        JOB,
        lambda job: _master(job).pop("restartPolicy"),
        "no restartPolicy",
        "restartPolicy: OnFailure",
    ),
    "models may be deleted": Bad(
        "models kept",
        "PersistentVolume",
        lambda volume: volume["spec"].update(persistentVolumeReclaimPolicy="Delete"),
        "Delete may delete the models",
        "reclaimPolicy: Retain",
    ),
    "hostPath elsewhere": Bad(
        "hostPath of a volume",
        "PersistentVolume",
        lambda volume: volume["spec"]["hostPath"].update(path="/var/lib/trainstack-not/x"),
        "is not below /var/lib/trainstack",
        "allowedRoots",
    ),
    "hostPath of a pod": Bad(
        "hostPath of a pod",
        JOB,
        lambda job: _master(job)["template"]["spec"]["volumes"].append(
            {"name": "x", "hostPath": {"path": "/etc"}}
        ),
        "hostPath /etc",
        "move it there",
    ),
    "hostPath of a pod that leads back": Bad(
        "hostPath of a pod",
        JOB,
        lambda job: _master(job)["template"]["spec"]["volumes"].append(
            {"name": "x", "hostPath": {"path": "/var/lib/trainstack/../../etc"}}
        ),
        "is not below",
        "move it there",
    ),
    "namespace without a level": Bad(
        "pod security",
        "Namespace",
        lambda namespace: namespace["metadata"]["labels"].clear(),
        "no Pod Security level",
        "enforce: baseline",
    ),
    **{
        f"every one of {key} in a {kind}": _role(kind, key)
        for kind in ("Role", "ClusterRole")
        for key in ("apiGroups", "resources", "verbs")
    },
    **{
        f"image of a {kind} by tag": Bad(
            "image by digest",
            kind,
            lambda each: _bad_image(each),
            "trainer:latest has no digest",
            "unpinned: true",
        )
        for kind, known in KINDS.items()
        if known.pod
    },
}
"""What is wrong -> the manifest."""


def _bad_image(each: Manifest) -> None:
    found: Any = each
    for word in KINDS[each["kind"]].pod or ():
        found = found[word]
    found["containers"][0]["image"] = "trainer:latest"
