"""Manifests that break one rule each, for both readings of the rules: the review's and an API server's."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from infra import stack_plan, volumes
from infra.config import Stack
from infra.guard.rule_scopes import KINDS, PODS
from infra.job.manifest import manifest
from infra.objects.labels import stack_labels
from storage.manifests import manifests as volume_manifests
from tests.unit.infra.samples import job_context

Manifest = dict[str, Any]
UNPINNED = ("trainer:latest has no digest", "unpinned: true")
RIGHT = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
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
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "rules": [RIGHT]}
    labels = stack_labels(stack.name)
    objects = [
        stack_plan.namespace(stack, namespace),
        *volume_manifests(volumes.models(stack)),
        {**role, "kind": "ClusterRole", "metadata": {"name": f"{namespace}-reader", "labels": labels}},
        {**role, "kind": "Role", "metadata": {"name": "reader", "namespace": namespace}},
        *(running(kind, namespace, pod_of(job)) for kind in PODS),
        job,
    ]
    return {each["kind"]: each for each in objects}


def running(kind: str, namespace: str, pod: Manifest) -> Manifest:
    """An object of `kind` that runs this pod."""
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
    return {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": name, "spec": spec}


def pod_of(each: Manifest) -> Manifest:
    """The spec of an object's pods; of a PyTorchJob its master's."""
    found: Any = copy.deepcopy(each)
    for word in _pod_of(each["kind"]):
        found = found[word]
    return dict(found)


def _pod_of(kind: str) -> tuple[str, ...]:
    return PODS.get(kind) or ("spec", "pytorchReplicaSpecs", "Master", "template", "spec")


@dataclass(frozen=True)
class Bad:
    """An object of `kind` that breaks `rule` alone once `changes` are made; a review says `problem` and `fix`."""

    rule: str
    kind: str
    changes: dict[str, Any]
    problem: str
    fix: str

    def of(self, stack: Stack) -> Manifest:
        """The manifest, for this stack."""
        made = copy.deepcopy(good(stack)[self.kind])
        for path, value in self.changes.items():
            _change(made, path.replace("pod.", ".".join((*_pod_of(self.kind), "")), 1).split("."), value)
        return made


def _change(found: Any, path: list[str], value: Any) -> None:
    *outer, last = path
    for word in outer:
        found = found[int(word)] if word.isdigit() else found[word]
    if last == "-":
        found.append(value)
    elif value is None:
        del found[last]
    else:
        found[last] = value


TABLE: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
NAMED = {"apiGroups": "API groups named", "resources": "resources named", "verbs": "verbs named"}
BAD: dict[str, Bad] = {
    **{
        name: Bad(rule, kind, changes, problem, fix)
        for name, row in TABLE.items()
        for kind, changes, (rule, problem, fix) in [(*next(iter(row.items())), row["breaks"])]
    },
    **{
        f"all {key} in a {kind}": Bad(
            rule, kind, {"rules.-": {**RIGHT, key: ["*"]}}, f"all {key}", f"list the {key}"
        )
        for kind in ("Role", "ClusterRole")
        for key, rule in NAMED.items()
    },
    **{
        f"image of a {kind} by tag": replace(bad, kind=kind)
        for bad in [Bad("image by digest", "", {"pod.containers.0.image": "trainer:latest"}, *UNPINNED)]
        for kind in PODS
    },
}
"""What is wrong -> the manifest."""
