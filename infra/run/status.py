"""Judges a PyTorchJob and its pods from what the API says about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

SUCCEEDED = "Succeeded"
FAILED = "Failed"
SUSPENDED = "Suspended"
# A waiting container in one of these states never starts by itself.
HOPELESS = {
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "CreateContainerConfigError",
}
# These are tried again and may pass, a registry's hiccup for example; not for long.
TROUBLED = {"ImagePullBackOff", "ErrImagePull", "CreateContainerError", "RunContainerError"}
TROUBLED_S = 15


@dataclass(frozen=True)
class Trouble:
    """Why a pod does not run."""

    pod: str
    reason: str
    message: str
    hopeless: bool

    def __str__(self) -> str:
        return f"pod {self.pod}: {self.reason}" + (f": {self.message}" if self.message else "")


def condition(job: dict[str, Any]) -> tuple[str, str]:
    """Type and message of the condition that holds now; the operator adds them in the order of time."""
    held = [entry for entry in job.get("status", {}).get("conditions", []) if entry["status"] == "True"]
    for name in (SUCCEEDED, FAILED):
        for entry in held:
            if entry["type"] == name:
                return name, entry.get("message", "")
    return (held[-1]["type"], held[-1].get("message", "")) if held else ("Pending", "")


def troubles(pods: Iterable[dict[str, Any]]) -> list[Trouble]:
    """What keeps pods from running, from their container states and the scheduler's verdict."""
    found = []
    for pod in pods:
        name, status = pod["metadata"]["name"], pod.get("status", {})
        for entry in status.get("conditions") or []:
            if entry["type"] == "PodScheduled" and entry["status"] == "False":
                found.append(Trouble(name, entry.get("reason", ""), entry.get("message", ""), False))
        for container in [
            *(status.get("initContainerStatuses") or []),
            *(status.get("containerStatuses") or []),
        ]:
            waiting = (container.get("state") or {}).get("waiting")
            if waiting and waiting.get("reason") in HOPELESS | TROUBLED:
                reason = waiting["reason"]
                found.append(Trouble(name, reason, waiting.get("message", ""), reason in HOPELESS))
    return found


def failed_container(pods: Iterable[dict[str, Any]]) -> tuple[str, str, bool] | None:
    """Pod and container whose exit is to blame, and whether its log is that of the `previous` start.

    The first to end badly: its peers only follow it.
    """
    ends = []
    for pod in pods:
        status = pod.get("status", {})
        for container in [
            *(status.get("initContainerStatuses") or []),
            *(status.get("containerStatuses") or []),
        ]:
            for key, previous in (("state", False), ("lastState", True)):
                end = (container.get(key) or {}).get("terminated")
                if end and end.get("exitCode"):
                    ends.append(
                        (end.get("finishedAt") or "", pod["metadata"]["name"], container["name"], previous)
                    )
    return min(ends)[1:] if ends else None


def restarts(pods: Iterable[dict[str, Any]]) -> int:
    """How often containers of `pods` were started again."""
    statuses = [each for pod in pods for each in pod.get("status", {}).get("containerStatuses") or []]
    return sum(int(each.get("restartCount", 0)) for each in statuses)
