"""What the stack's own state holds, read by the program before it registers anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from infra.objects.kinds import NAMESPACE
from infra.objects.labels import QUEUED
from infra.objects.manifest import title

# An invoke of Pulumi's engine (pkg/v3/resource/deploy/builtins.go), which reads the stack's last checkpoint.
READ = "pulumi:pulumi:readStackResourceOutputs"
OWNER = "pulumi-python:dynamic/trainstack:Owner"
KIND_CLUSTER = "pulumi-python:dynamic/trainstack:KindCluster"
MICROK8S = "pulumi-python:dynamic/trainstack:MicroK8s"
PROVIDER = "pulumi:providers:kubernetes"
OBJECT = "kubernetes:"


@dataclass(frozen=True)
class StackState:
    """What the state holds of the stack: its owner's id, its Kubernetes objects, its cluster.

    Parameters:
        owner: None before the first update.
        objects: `Kind/namespace/name` of each.
        uids: `Kind/namespace/name` -> uid of each.
        folders: those of its volumes on the nodes.
        queued: `Kind/namespace/name` -> what it was made from, of jobs in queues of Kueue's.
        cluster: whether there is a provider for objects.
        kind_cluster: properties of the stack's own kind cluster.
        microk8s: properties of the MicroK8s installation that the stack uses.
    """

    owner: str | None = None
    objects: frozenset[str] = frozenset()
    uids: Mapping[str, str] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()
    queued: Mapping[str, str] = field(default_factory=dict)
    cluster: bool = False
    kind_cluster: Mapping[str, Any] | None = None
    microk8s: Mapping[str, Any] | None = None

    @property
    def namespaces(self) -> dict[str, str]:
        """Name -> uid of the namespaces that the stack made."""
        before = f"{NAMESPACE.kind}/"
        return {each.removeprefix(before): uid for each, uid in self.uids.items() if each.startswith(before)}


def read() -> StackState:
    """What the state holds now; in an update with `--refresh`, after the refresh."""
    organization = pulumi.get_organization() or "organization"  # a backend of files has none
    name = "/".join([organization, pulumi.get_project(), pulumi.get_stack()])
    answer: Any = pulumi.runtime.invoke(READ, {"stackName": name})
    return from_outputs((answer.value or {}).get("outputs") or {})


def from_outputs(resources: Mapping[str, Mapping[str, Any]]) -> StackState:
    """From the engine's answer: URN -> type and outputs."""
    resources = {urn: each for urn, each in resources.items() if each.get("outputs") is not None}

    def single(type_: str) -> Mapping[str, Any] | None:
        return next((each["outputs"] for each in resources.values() if each["type"] == type_), None)

    objects = [each["outputs"] for each in resources.values() if each["type"].startswith(OBJECT)]
    uids = {title(dict(each)): each["metadata"].get("uid", "") for each in objects if each.get("metadata")}
    return StackState(
        owner=(single(OWNER) or {}).get("owner"),
        objects=frozenset(uids),
        uids=uids,
        folders=frozenset(_folders(objects)),
        queued=dict(_queued(objects)),
        cluster=any(each["type"] == PROVIDER for each in resources.values()),
        kind_cluster=single(KIND_CLUSTER),
        microk8s=single(MICROK8S),
    )


def _queued(objects: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for each in objects:
        made_from = ((each.get("metadata") or {}).get("annotations") or {}).get(QUEUED)
        if made_from:
            yield title(dict(each)), made_from


def _folders(objects: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for each in objects:
        if each.get("kind") == "PersistentVolume":
            path = ((each.get("spec") or {}).get("hostPath") or {}).get("path")
            yield from [path] if path else []
