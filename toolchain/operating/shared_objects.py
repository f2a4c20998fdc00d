"""What of a stack others may use, too: it goes with the stack only where nobody else uses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolchain.operating import adoption, state
from toolchain.operating.retained_claims import CLAIM

NAMESPACE, VOLUME = "kubernetes:core/v1:Namespace", "kubernetes:core/v1:PersistentVolume"
OPERATOR = "trainstack:operator:Operator"
Users = Mapping[str, Any]


def titles(deployment: Mapping[str, Any]) -> list[str]:
    """`Kind/namespace/name` of each object in the state."""
    return [adoption.title(each["outputs"]) for each in state.objects(deployment) if each.get("outputs")]


def retain(deployment: dict[str, Any], users: Users) -> None:
    """Have the destruction leave what others use."""
    for each in _used(deployment, users):
        each[state.RETAINED] = True


def _used(deployment: Mapping[str, Any], users: Users) -> list[dict[str, Any]]:
    """The operator, where others have jobs; claims that others' pods mount, each with its volume; and namespaces.

    Those are used that hold others' objects, or one of what stays.
    """
    found = [each for each in state.objects(deployment) if each.get("outputs")]
    claims = {each for each, pods in users["claims"].items() if pods}
    kept = [
        each
        for each in found
        if (OPERATOR in each["urn"] and users["jobs"]) or not claims.isdisjoint(_claims(each))
    ]
    spaces = {name for name, others in users["namespaces"].items() if others}
    spaces |= {each["outputs"]["metadata"].get("namespace") for each in kept}
    return [
        each
        for each in found
        if each in kept or (each["type"] == NAMESPACE and each["outputs"]["metadata"]["name"] in spaces)
    ]


def _claims(resource: Mapping[str, Any]) -> Iterator[str]:
    """The title of a claim: of itself, or of the one that a volume is bound to."""
    outputs = resource["outputs"]
    if resource["type"] == CLAIM:
        yield adoption.title(outputs)
    bound = (outputs.get("spec") or {}).get("claimRef") if resource["type"] == VOLUME else None
    if bound:
        yield f"PersistentVolumeClaim/{bound['namespace']}/{bound['name']}"


def left(deployment: Mapping[str, Any], users: Users) -> list[str]:
    """Lines that name what stays in the cluster, and for whom; none where nothing does."""
    kept = [adoption.title(each["outputs"]) for each in _used(deployment, users)]
    if not kept:
        return []
    by_place = (*users["namespaces"].values(), *users["claims"].values())
    others = [*users["jobs"], *(each for found in by_place for each in found)]
    return [
        f"left in the cluster, as others use it: {', '.join(kept)}",
        f"used by: {', '.join(dict.fromkeys(others))}",
    ]
