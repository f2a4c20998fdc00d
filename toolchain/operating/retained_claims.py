"""Claims that Pulumi never deletes: what `make down` says of them, as their storage class may delete their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolchain.operating import adoption, state
from toolchain.paths import MODELS
from toolchain.steps import SetupError

CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"

Lookup = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Finds the live object of a manifest's kind and name, or None; raises SetupError."""


def lines(deployment: state.Deployment, stack: str, live: Lookup) -> list[str]:
    """What becomes of each such claim of `stack` and of its files; to be asked for before the stack is destroyed."""
    kept = [each["outputs"] for each in state.objects(deployment) if each.get(state.RETAINED)]
    namespaces = {each["metadata"]["name"] for each in kept if each["kind"] == "Namespace"}
    told = []
    for each in state.objects(deployment):
        if each["type"] != CLAIM or not each.get(state.RETAINED):
            continue
        name = adoption.title(each["outputs"])
        if cluster := state.kind_cluster(deployment):
            told.append(f"{name} and its files go with cluster {cluster}; kept: what is in {MODELS / stack}")
            continue
        namespace, claim = name.split("/")[1:]
        stays = f"{name}, with Namespace/{namespace}" if namespace in namespaces else name
        delete = f"kubectl --namespace {namespace} delete persistentvolumeclaim {claim}"
        told += [
            f"left in the cluster: {stays}; {_fate(each['outputs'], live)}",
            f"  to delete it: {delete}",
            f"  to go on with it: make up STACK={stack} ADOPT={state.owner(deployment)}",
        ]
    return told


def _fate(claim: Mapping[str, Any], live: Lookup) -> str:
    """What the cluster will do with the files of a claim that is deleted, as far as this user may ask."""
    try:
        found = live(claim) or {}
        name = (found.get("spec") or {}).get("volumeName")
        if not name:
            return "no volume is bound to it, so that it has no files yet"
        kind = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
        volume = live(kind) or {}
    except SetupError:
        volume = {}
    policy = (volume.get("spec") or {}).get("persistentVolumeReclaimPolicy")
    if policy == "Retain":
        return f"its volume {name} stays when the claim is deleted (reclaim policy Retain)"
    said = f"reclaim policy {policy}" if policy else "the usual reclaim policy; yours could not be read"
    return f"its files go when the claim is deleted ({said})"
