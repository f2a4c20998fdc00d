"""What a change has done to a stack, by the uids of its objects and not by what Pulumi says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from infra.config.section import Outcome
from infra.objects.labels import STACK

Objects = dict[str, dict[str, Any]]
"""Kind/namespace/name -> the object as the API server shows it."""

# The most that a change replaces counts: from the outer to the inner.
REPLACED = {
    Outcome.CLUSTER_REPLACED: ("Namespace//kube-system",),
    Outcome.VOLUME_REPLACED: ("PersistentVolume/", "PersistentVolumeClaim/"),
    Outcome.JOB_REPLACED: ("PyTorchJob/", "Pod/"),
}
# Objects that come and go with other keys than those that they are judged by.
PASSING = ("-data", "-prepare")


def outcome_of(plain: Objects, changed: Objects) -> Outcome:
    """How far `changed` is from `plain`, the same stack without that change; IN_PLACE is the least.

    What the change has added says nothing, so that it is asked the same way for the change and for the way back.
    """
    there = uids(changed)
    for outcome, beginnings in REPLACED.items():
        own = [each for key, each in plain.items() if key.startswith(beginnings) and _counts(key, each)]
        if not {uid(each) for each in own} <= there:
            return outcome
    return Outcome.IN_PLACE


def assert_as_expected(expected: Outcome, plain: Objects, changed: Objects) -> None:
    if expected is Outcome.NOTHING:
        assert identities(plain) == identities(changed)
    else:
        assert outcome_of(plain, changed) is expected


def lasting(found: Objects) -> set[str]:
    """The keys of what has a name of ours; the pods of a Job have another one each time."""
    return {key for key in found if not (key.startswith("Pod/") and any(part in key for part in PASSING))}


def _counts(key: str, each: Mapping[str, Any]) -> bool:
    is_of_job = each["kind"] != "Pod" or "job-name" in (each["metadata"].get("labels") or {})
    return is_of_job and not any(part in key for part in PASSING)


def uids(found: Objects) -> set[str]:
    return {uid(each) for each in found.values()}


def uid(each: Mapping[str, Any]) -> str:
    return str(each["metadata"]["uid"])


def identities(found: Objects) -> dict[str, str]:
    """Name -> uid: what differs between two of them says which objects came, went or were made anew."""
    return {key: uid(each) for key, each in found.items()}


def going(found: Objects) -> list[str]:
    """The objects that are Terminating, whosoever they are: an earlier test may not have waited for them."""
    return [f"{key} is Terminating" for key, each in found.items() if "deletionTimestamp" in each["metadata"]]


def is_ours(each: Mapping[str, Any], stack: str) -> bool:
    """By the label of the stack, or by the kinds that nothing else in a test's cluster has."""
    labels = each["metadata"].get("labels") or {}
    is_known = each["kind"] in ("PersistentVolume", "PersistentVolumeClaim", "PyTorchJob")
    return is_known or labels.get(STACK) == stack or "job-name" in labels


def by_key(objects: Iterable[dict[str, Any]]) -> Objects:
    named = ((each, each["metadata"]) for each in objects)
    return {f"{each['kind']}/{meta.get('namespace', '')}/{meta['name']}": each for each, meta in named}


def half_gone(found: Objects, stack: str) -> list[str]:
    """Our objects that are Terminating, Pending, Released or not bound, each with what it is."""
    told = []
    for key, each in found.items():
        phase = each.get("status", {}).get("phase")
        wanted = {"PersistentVolume": ["Bound"], "PersistentVolumeClaim": ["Bound"]}.get(each["kind"])
        if not is_ours(each, stack):
            continue
        if each["metadata"].get("deletionTimestamp"):
            told.append(f"{key} is Terminating")
        elif phase == "Pending" or (wanted and phase not in wanted):
            told.append(f"{key} is {phase}")
    return told


def files_at_risk(found: Objects) -> list[str]:
    """Volumes of ours whose files would go with their claim."""
    policies = {
        key: each["spec"]["persistentVolumeReclaimPolicy"]
        for key, each in found.items()
        if each["kind"] == "PersistentVolume" and STACK in (each["metadata"].get("labels") or {})
    }
    return [f"{key} has {policy}" for key, policy in policies.items() if policy != "Retain"]


def folders(found: Objects) -> set[str]:
    """Where the models lie on the nodes."""
    volumes = (
        each for key, each in found.items() if each["kind"] == "PersistentVolume" and _counts(key, each)
    )
    return {each["spec"]["hostPath"]["path"] for each in volumes if "hostPath" in each["spec"]}


def job_specs(found: Objects) -> dict[str, Any]:
    """Job's name -> its spec."""
    jobs = (each for each in found.values() if each["kind"] == "PyTorchJob")
    return {each["metadata"]["name"]: each["spec"] for each in jobs}
