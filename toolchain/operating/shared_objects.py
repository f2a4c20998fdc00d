"""What a stack has installed for all users of a cluster: it goes with the stack only where nobody else uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolchain.operating import adoption, state

NAMESPACE = "kubernetes:core/v1:Namespace"
OPERATOR = "trainstack:operator:Operator"
Users = Mapping[str, Any]


def titles(deployment: Mapping[str, Any]) -> list[str]:
    """`Kind/namespace/name` of each object in the state."""
    return [adoption.title(each["outputs"]) for each in state.objects(deployment) if each.get("outputs")]


def are_in(deployment: Mapping[str, Any]) -> bool:
    """Whether the state holds objects that others may use, too."""
    return any(_is_for_all(each) for each in state.objects(deployment))


def retain(deployment: dict[str, Any], users: Users) -> None:
    """Have the destruction leave what others use."""
    for each in _used(deployment, users):
        each[state.RETAINED] = True


def _is_for_all(resource: Mapping[str, Any]) -> bool:
    return resource["type"] == NAMESPACE or OPERATOR in resource["urn"]


def _used(deployment: Mapping[str, Any], users: Users) -> list[dict[str, Any]]:
    """The operator, where others have jobs, with the namespace that it is in; and namespaces with others' objects."""
    found = list(state.objects(deployment))
    of_operator = [_metadata(each).get("namespace") for each in found if OPERATOR in each["urn"]]

    def is_used(resource: Mapping[str, Any]) -> bool:
        if resource["type"] != NAMESPACE:
            return _is_for_all(resource) and bool(users["jobs"])
        name = _metadata(resource)["name"]
        return bool(users["namespaces"].get(name)) or (name in of_operator and bool(users["jobs"]))

    return [each for each in found if is_used(each)]


def _metadata(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (resource.get("outputs") or {}).get("metadata") or {}
    return found


def left(deployment: Mapping[str, Any], users: Users) -> list[str]:
    """Lines that name what stays in the cluster, and for whom; none where nothing does."""
    kept = [adoption.title(each["outputs"]) for each in _used(deployment, users)]
    if not kept:
        return []
    others = [*users["jobs"], *(each for found in users["namespaces"].values() for each in found)]
    return [
        f"left in the cluster, as others use it: {', '.join(kept)}",
        f"used by: {', '.join(dict.fromkeys(others))}",
    ]
