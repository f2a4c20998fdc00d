"""What a stack has installed for all users of a cluster: it goes with the stack only where nobody else uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolchain.operating import adoption, state

RETAINED = "retainOnDelete"
NAMESPACE = "kubernetes:core/v1:Namespace"
OPERATORS = "kubeflow"
"""The namespace that the operator is in, and stays in with it."""

Users = Mapping[str, Any]


def titles(deployment: Mapping[str, Any]) -> list[str]:
    """`Kind/namespace/name` of each object in the state."""
    return [adoption.title(each["outputs"]) for each in state.objects(deployment) if each.get("outputs")]


def are_in(deployment: Mapping[str, Any]) -> bool:
    """Whether the state holds objects for all, which a deletion of the stack leaves."""
    return any(each.get(RETAINED) for each in state.objects(deployment))


def release(deployment: dict[str, Any], users: Users) -> None:
    """Let the destruction delete what nobody but the stack uses."""
    for each in state.objects(deployment):
        if each.get(RETAINED) and not _is_used(each, users):
            each[RETAINED] = False


def _is_used(resource: Mapping[str, Any], users: Users) -> bool:
    if resource["type"] != NAMESPACE:
        return bool(users["jobs"])
    name = resource["outputs"]["metadata"]["name"]
    return bool(users["namespaces"].get(name)) or (name == OPERATORS and bool(users["jobs"]))


def left(deployment: Mapping[str, Any], users: Users) -> list[str]:
    """Lines that name what stays in the cluster, and for whom; none where nothing does."""
    kept = [
        adoption.title(each["outputs"])
        for each in state.objects(deployment)
        if each.get(RETAINED) and _is_used(each, users)
    ]
    if not kept:
        return []
    others = [*users["jobs"], *(each for found in users["namespaces"].values() for each in found)]
    return [
        f"left in the cluster, as others use it: {', '.join(kept)}",
        f"used by: {', '.join(dict.fromkeys(others))}",
    ]
