"""Refuses a change that has to delete a claim which pods of others mount: the deletion would wait for them in vain."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from infra import volumes
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.names import quantity
from infra.objects.job_kinds import OF_API
from infra.objects.kinds import CLAIM, POD, VOLUME
from infra.objects.labels import MANAGED_BY, job_of
from infra.objects.look import Look
from infra.objects.manifest import title
from infra.objects.mounts import pods_with_claim
from infra.objects.stack_state import StackState
from storage.manifests import Manifest, Volume, persistent_volume, persistent_volume_claim

WITHOUT = (
    "take the change of `trainstack:storage` or `cluster.namespace` back; "
    "before a stack moves to another cluster, `make down`"
)
# Fields of a bound volume that Kubernetes lets a client change; any other change replaces volume and claim.
CHANGEABLE = {"capacity", "persistentVolumeReclaimPolicy", "claimRef"}


def ensure_replaceable(stack: Stack, look: Look, held: StackState) -> None:
    """Raises ConfigError where the update deletes a claim, to replace it or for good, that somebody else's pods mount.

    Raises UnknownError where that cannot be told.

    Parameters:
        held: what the stack's state holds.
    """
    for each in leaving(volumes.own_volumes(stack), held):
        _, namespace, claim = each.split("/")
        # By its name, as Pulumi deletes it, whoever has made it again.
        if look.get(CLAIM, claim, namespace, without=WITHOUT) is None:
            continue
        if users := mounting(look, namespace, claim, held.objects, WITHOUT):
            raise ConfigError(_refusal(stack, namespace, claim, users))


def _refusal(stack: Stack, namespace: str, claim: str, users: list[str]) -> str:
    moves = namespace != stack.cluster.namespace
    key, value = ("cluster.namespace", stack.cluster.namespace) if moves else ("storage", "(changed)")
    allowed = f"a change that keeps claim {claim}, as long as pods of others mount it: {', '.join(users)}"
    fix = f"end them (kubectl --namespace {namespace} delete pod {' '.join(users)}), or take the change back"
    return paragraph(stack.file, f"trainstack:{key}", value, allowed, fix)


def mounting(look: Look, namespace: str, claim: str, own: Collection[str], without: str = "") -> list[str]:
    """Names of others' pods that mount a claim. Raises UnknownError.

    Nothing of ours takes them with it when it is deleted, and they do not end by themselves.

    Parameters:
        own: titles of the stack's objects.
        without: what to do without the right to list them.
    """
    pods = pods_with_claim(claim, look.listed(POD, namespace, without=without) or [])
    return [each["metadata"]["name"] for each in pods if not _is_ours(each["metadata"], own)]


def _is_ours(pod: Manifest, own: Collection[str]) -> bool:
    labels, owners = pod.get("labels") or {}, pod.get("ownerReferences") or []
    job = job_of(labels)
    makers = [(each["kind"], each["name"]) for each in owners] + [
        (each.kind, job) for each in OF_API.values()
    ]
    titles = {title({"kind": kind, "metadata": {**pod, "name": name}}) for kind, name in makers}
    reads_for_us = MANAGED_BY.items() <= labels.items() and not owners and not job
    return "deletionTimestamp" in pod or reads_for_us or not titles.isdisjoint(own)


def leaving(wanted: Collection[Volume], held: StackState) -> Iterator[str]:
    """Titles of the claims of the state that the update deletes, to replace them or for good.

    A claim without a selector is of a storage class: Pulumi never deletes that.

    Parameters:
        wanted: the volumes that the stack is to have.
    """
    by_claim = {title(persistent_volume_claim(each)): each for each in wanted}
    for each, claimed in held.storage.items():
        if each.startswith(f"{CLAIM.kind}/") and claimed.get("selector"):
            volume = by_claim.get(each)
            if volume is None or _is_replaced(volume, claimed, held):
                yield each


def _is_replaced(volume: Volume, claimed: Mapping[str, Any], held: StackState) -> bool:
    """Whether the claim goes with its volume, or is another one by now."""
    bound = {
        each: spec
        for each, spec in held.storage.items()
        if each.startswith(f"{VOLUME.kind}/") and _is_for(spec, volume)
    }
    there = bound.get(f"{VOLUME.kind}/{volume.name}")
    is_another = bool(bound) if there is None else _is_another(volume, there)
    return is_another or differs(_by_amount(persistent_volume_claim(volume)["spec"]), _by_amount(claimed))


def _is_for(spec: Mapping[str, Any], volume: Volume) -> bool:
    bound = spec.get("claimRef") or {}
    return (bound.get("namespace"), bound.get("name")) == (volume.namespace, volume.claim)


def _is_another(volume: Volume, there: Mapping[str, Any]) -> bool:
    fixed = persistent_volume(volume)["spec"].items()
    unpinned = "nodeAffinity" in there and volume.node is None
    return unpinned or differs({key: value for key, value in fixed if key not in CHANGEABLE}, there)


def differs(wanted: Any, live: Any) -> bool:
    """Whether a field of `wanted` is missing or different in `live`; fields that the server filled in do not count."""
    if isinstance(wanted, dict):
        return not isinstance(live, dict) or any(differs(wanted[key], live.get(key)) for key in wanted)
    return bool(wanted != live)


def _by_amount(claim: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a claim with the size that it asks for in bytes: the server writes 1024Mi as 1Gi."""
    return {**claim, "resources": quantity(claim["resources"]["requests"]["storage"])}
