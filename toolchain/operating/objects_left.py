"""What `make down` leaves in the cluster: objects that others use, and claims that Pulumi never deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infra.objects.kinds import title
from toolchain.operating import state
from toolchain.paths import MODELS
from toolchain.steps import SetupError

NAMESPACE, VOLUME = "kubernetes:core/v1:Namespace", "kubernetes:core/v1:PersistentVolume"
OPERATOR, QUEUE = "trainstack:operator:Operator", "trainstack:operator:Queue"
Users = Mapping[str, Any]
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"

Lookup = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Finds the live object of a manifest's kind and name, or None; raises SetupError."""


def titles(deployment: Mapping[str, Any]) -> list[str]:
    """`Kind/namespace/name` of each object in the state."""
    return [title(each["outputs"]) for each in state.objects(deployment) if each.get("outputs")]


def retain(deployment: dict[str, Any], users: Users) -> None:
    """Mark objects that others use, so that `pulumi destroy` leaves them."""
    for each in _used(deployment, users):
        each[state.RETAINED] = True


def _used(deployment: Mapping[str, Any], users: Users) -> list[dict[str, Any]]:
    """The resources of the state that others use.

    They use the operator if they have jobs. They use Kueue and the quota if they have queues or workloads. They use a
    claim and its volume if their pods mount the claim. A namespace is used if it holds others' objects, or an object
    that stays.
    """
    found = [each for each in state.objects(deployment) if each.get("outputs")]
    claims = {each for each, pods in users["claims"].items() if pods}
    kept = [
        each
        for each in found
        if (OPERATOR in each["urn"] and users["jobs"])
        or (QUEUE in each["urn"] and users["queues"])
        or not claims.isdisjoint(_claims(each))
    ]
    spaces = {name for name, others in users["namespaces"].items() if others}
    spaces |= {each["outputs"]["metadata"].get("namespace") for each in kept}
    return [
        each
        for each in found
        if each in kept or (each["type"] == NAMESPACE and each["outputs"]["metadata"]["name"] in spaces)
    ]


def _claims(resource: Mapping[str, Any]) -> Iterator[str]:
    """The title of the claim `resource`, or of the claim that the volume `resource` is bound to."""
    outputs = resource["outputs"]
    if resource["type"] == CLAIM:
        yield title(outputs)
    bound = (outputs.get("spec") or {}).get("claimRef") if resource["type"] == VOLUME else None
    if bound:
        yield f"PersistentVolumeClaim/{bound['namespace']}/{bound['name']}"


def left(deployment: Mapping[str, Any], users: Users) -> list[str]:
    """Lines that say which objects stay in the cluster, and who uses them; none if no object stays."""
    kept = [title(each["outputs"]) for each in _used(deployment, users)]
    if not kept:
        return []
    by_place = (*users["namespaces"].values(), *users["claims"].values())
    others = [*users["jobs"], *users["queues"], *(each for found in by_place for each in found)]
    return [
        f"left in the cluster, because others use it: {', '.join(kept)}",
        f"used by: {', '.join(dict.fromkeys(others))}",
    ]


def claim_lines(deployment: state.Deployment, stack: str, live: Lookup) -> list[str]:
    """What happens to each claim of `stack` that Pulumi never deletes, and to its files.

    Call it before the stack is destroyed.
    """
    kept = [each["outputs"] for each in state.objects(deployment) if each.get(state.RETAINED)]
    namespaces = {each["metadata"]["name"] for each in kept if each["kind"] == "Namespace"}
    told = []
    for each in state.objects(deployment):
        if each["type"] != CLAIM or not each.get(state.RETAINED):
            continue
        name = title(each["outputs"])
        if cluster := state.own_cluster(deployment):
            told.append(f"{name} and its files are deleted with cluster {cluster}; kept: {MODELS / stack}")
            continue
        namespace, claim = name.split("/")[1:]
        stays = f"{name}, with Namespace/{namespace}" if namespace in namespaces else name
        delete = f"kubectl --namespace {namespace} delete persistentvolumeclaim {claim}"
        told += [
            f"left in the cluster: {stays}; {_fate(each['outputs'], live)}",
            f"  to delete it: {delete}",
            f"  to use it again: make up STACK={stack} ADOPT={state.owner(deployment)}",
        ]
    return told


def _fate(claim: Mapping[str, Any], live: Lookup) -> str:
    """What happens to the files when the claim is deleted, or on what that depends if the volume cannot be read."""
    try:
        found = live(claim) or {}
        name = (found.get("spec") or {}).get("volumeName")
        if not name:
            return "no volume is bound to it yet, so it has no files"
        kind = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
        volume = live(kind) or {}
    except SetupError:
        volume = {}
    policy = (volume.get("spec") or {}).get("persistentVolumeReclaimPolicy")
    if policy == "Retain":
        return f"its volume {name} stays when the claim is deleted (reclaim policy Retain)"
    if not policy:
        return "its files are deleted with the claim if the volume's reclaim policy, which could not be read, is Delete"
    return f"its files are deleted with the claim (reclaim policy {policy})"
