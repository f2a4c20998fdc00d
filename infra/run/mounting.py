"""Finds volumes that a node cannot mount for its pods, from the kubelet's events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from infra.run.job_status import Trouble, containers

UNMOUNTED = ("FailedMount", "FailedAttachVolume")
"""Reasons of the kubelet's events. It tries again, with pauses of up to two minutes."""
UNMOUNTED_S = 300
"""How long a volume may stay away, in seconds: the kubelet tries at least twice more."""
# What mount says where nothing on the node can mount this kind: no program for it, or a kernel without it.
NO_CLIENT = ("/sbin/mount.<type> helper", "unknown filesystem type", "No such device")
CLIENT = "the node has no client for such volumes; for NFS that is mount.nfs (Debian: nfs-common) and a kernel with NFS"
# What the kubelet says in between, without the reason.
UNSAID = "Unable to attach or mount volumes"
NOT_YET = ("ContainerCreating", "PodInitializing")


def waits(pod: dict[str, Any]) -> bool:
    """Whether a pod is on a node, and none of its containers has been made yet."""
    status = pod.get("status", {})
    states = [(each.get("state") or {}).get("waiting") or {} for each in containers(status)]
    there = bool((pod.get("spec") or {}).get("nodeName")) and status.get("phase") == "Pending"
    return there and all(each.get("reason") in NOT_YET for each in states)


def trouble(pod: dict[str, Any], events: Iterable[dict[str, Any]]) -> list[Trouble]:
    """What keeps the volumes from a pod that `waits`: one trouble, or none.

    Parameters:
        events: those of type Warning about the pod.
    """
    failed = [each for each in events if each.get("reason") in UNMOUNTED]
    said = [each for each in failed if UNSAID not in each.get("message", "")] or failed
    if not said:
        return []
    last = max(said, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))
    text = last.get("message", "")
    hopeless = any(each in text for each in NO_CLIENT)
    message = f"on node {pod['spec']['nodeName']}: {_reason(text)}" + (f"; {CLIENT}" if hopeless else "")
    return [Trouble(f"pod {pod['metadata']['name']}", last["reason"], message, hopeless)]


def _reason(text: str) -> str:
    """Of mount's failure what it has printed, else all that the kubelet says, in one line."""
    printed = text.partition("\nOutput: ")[2]
    return " ".join((printed or text).split()).rstrip(".")
