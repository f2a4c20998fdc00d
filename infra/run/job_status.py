"""Judges a job and its pods from what the API says about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from infra import agreed
from infra.objects.job_kinds import PYTORCHJOB
from infra.objects.kinds import is_leaving

SUCCEEDED, FAILED = ENDS = agreed.SUCCEEDED, agreed.FAILED
SUSPENDED = agreed.SUSPENDED
# A TrainJob's condition that means SUCCEEDED.
COMPLETE = "Complete"
# A job in one of these conditions gets no more pods.
ENDED = {*ENDS, SUSPENDED}
UNMOUNTED = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
"""Reasons of the kubelet's events about failed mounts. The kubelet tries again, after at most two minutes."""
GIVEN_UP_S: dict[str, float] = {
    # A container that waits for one of these reasons never starts by itself.
    **dict.fromkeys(
        ("InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "CreateContainerConfigError"), 0
    ),
    # The kubelet tries again, and a short failure, for example of a registry, may end.
    **dict.fromkeys(
        ("ImagePullBackOff", "ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed"), 15
    ),
    **dict.fromkeys(("CreateContainerError", "ImageVolumeMountFailed", "RunContainerError"), 15),
    # The kubelet tries at least twice more.
    **dict.fromkeys(UNMOUNTED, 300),
}
"""Reason of a pod, a container or an event -> for how many seconds we wait while the reason lasts.

With any other reason, we wait as long as something changes. Every reason is shown unchanged.
"""
# The kernel says the first about a program for another processor; containerd says the second about an image that does
# not support this processor.
OTHER_PROCESSOR = ("exec format error", "no match for platform")
WRONG_ARCHITECTURE = "WrongArchitecture"
# Messages of mount if the node cannot mount this kind of volume: the node lacks a program, or its kernel lacks support.
NO_CLIENT = ("/sbin/mount.<type> helper", "unknown filesystem type", "No such device")
CLIENT = (
    "the node has no client for such volumes; NFS needs mount.nfs (Debian: nfs-common) and a kernel with NFS"
)
# The kubelet also sends this message, which names no cause.
UNSAID = "Unable to attach or mount volumes"
NOT_YET = ("ContainerCreating", "PodInitializing")
BACK_OFF = "CrashLoopBackOff"
"""The reason of a waiting container that has ended before: how it ended says more."""
KUBELET = "kubelet"
DISRUPTED = "DisruptionTarget"
"""The condition of a pod that the scheduler, a drain, a taint or a clean-up terminates."""
PEER_ENDED = "PeerEnded"
"""Our reason for a replica that started again after another replica had succeeded."""
EVICTED = "Evicted"
"""The reason of a pod that its kubelet terminated, and of the event about it."""
# Source: emptyDirMessageFmt in pkg/kubelet/eviction/helpers.go of Kubernetes 1.34.
FULL_VOLUME = re.compile(
    r'EmptyDir volume "(?P<name>[^"]+)" exceeds the limit "(?P<number>\d+)(?P<unit>\w*)"'
)
# Source: containerEphemeralStorageMessageFmt and podEphemeralStorageMessageFmt in the same file.
FULL_STORAGE = re.compile(
    r"(?:Container (?:pytorch|node) exceeded its local ephemeral storage limit|exceeds the total limit of containers)"
    r' "?(?P<number>\d+)(?P<unit>\w*)'
)
MORE_ROOM = 5
"""The fix for a full volume or full storage is its limit times this number."""
# Source: NewInvalid in pkg/api/errors/errors.go of k8s.io/apimachinery 0.34.
INVALID = re.compile(r'Pod "[^"]*" is invalid: ')


@dataclass(frozen=True)
class Trouble:
    """Why a pod does not run, or does not exist.

    Parameters:
        about: `pod <name>`, `job <name>` if no pod could be created, or `queue <name>`.
        reason, message: from Kubernetes.
        hopeless: whether waiting is useless.
    """

    about: str
    reason: str
    message: str
    hopeless: bool = False

    @property
    def limit_s(self) -> float | None:
        """For how many seconds we wait while the trouble lasts; None: as long as something changes."""
        return 0 if self.hopeless else GIVEN_UP_S.get(self.reason)

    def __str__(self) -> str:
        return f"{self.about}: {self.reason}" + (f": {self.message}" if self.message else "")


def condition(job: dict[str, Any]) -> tuple[str, str]:
    """Type and message of the current condition. The operator adds conditions in the order of time.

    A running TrainJob has no condition; its Jobs say whether pods are active.
    """
    status, held = job.get("status", {}), agreed.conditions(job)
    for name, words in ((SUCCEEDED, (SUCCEEDED, COMPLETE)), (FAILED, (FAILED,))):
        for entry in held:
            if entry["type"] in words:
                return name, entry.get("message", "")
    if held:
        return held[-1]["type"], held[-1].get("message", "")
    return (
        "Running" if any(each.get("active") for each in status.get("jobsStatus") or []) else "Pending"
    ), ""


def troubles(pods: Iterable[dict[str, Any]]) -> list[Trouble]:
    """Why pods do not run, from their conditions, their own reasons and the states of their containers."""
    found = []
    for pod in pods:
        name, status = pod["metadata"]["name"], pod.get("status", {})
        for entry in status.get("conditions") or []:
            if entry["type"] == "PodScheduled" and entry["status"] == "False":
                found.append(Trouble(f"pod {name}", entry.get("reason", ""), entry.get("message", "")))
            if entry["type"] == DISRUPTED and entry["status"] == "True" and not pod_end(pod):
                found.append(Trouble(f"pod {name}", entry.get("reason", ""), entry.get("message", "")))
        if status.get("reason"):
            found.append(_pod_failure(name, status))
        if pod_end(pod):
            continue
        for container in containers(status):
            found += _container_troubles(name, container, has_failed=status.get("phase") == FAILED)
    return found


def pod_end(pod: Mapping[str, Any]) -> Trouble | None:
    """Why a pod failed as a whole, as its kubelet or a controller says; None if a container failed, or nothing did."""
    status = pod.get("status", {})
    if status.get("phase") != FAILED or not status.get("reason"):
        return None
    return _pod_failure(pod["metadata"]["name"], status)


def eviction(pod: str, events: Iterable[Mapping[str, Any]]) -> Trouble | None:
    """The eviction of this pod, which may no longer exist, from the events of type Warning about it."""
    return next((_pod_failure(pod, each) for each in events if each.get("reason") == EVICTED), None)


def counted(evicted: Trouble, number: int, job: Mapping[str, Any]) -> Trouble:
    """`evicted`, the last of `number` evictions; hopeless if `job` allows no more restarts.

    Here, an eviction counts as a restart. The operator counts only restarts of containers, so it would replace evicted
    pods until the job's deadline.
    """
    limit = job["spec"].get("runPolicy", {}).get("backoffLimit")
    hopeless = limit is not None and number >= max(limit, 1)
    times = f" (evictions so far: {number})" if number > 1 else ""
    return replace(evicted, message=evicted.message + times, hopeless=hopeless)


def _pod_failure(pod: str, said: Mapping[str, Any]) -> Trouble:
    message = str(said.get("message") or "").strip()
    full = FULL_VOLUME.search(message) or FULL_STORAGE.search(message)
    room = f"{MORE_ROOM * int(full['number'])}{full['unit']}" if full else ""
    if full and full.re is FULL_VOLUME:
        where = "/tmp" if full["name"] == "tmp" else f"the volume {full['name']}"
        volume = f"{{name: {full['name']}, emptyDir: {{sizeLimit: {room}}}}}"
        message += f" Give {where} more room: `job: {{pod: {{spec: {{volumes: [{volume}]}}}}}}`"
    elif full:
        message += f" Give a replica more storage: `job: {{resources: {{ephemeral-storage: {room}}}}}`"
    return Trouble(f"pod {pod}", said["reason"], message)


def stranded(job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> list[Trouble]:
    """Replicas that wait for a replica that has succeeded already, so that the PyTorchJob never ends.

    A job ends when its master ends; without a master, when all workers have ended. Elastic workers do not wait for
    ended workers. All pods of a TrainJob restart together.
    """
    spec = job["spec"]
    if "pytorchReplicaSpecs" not in spec or spec.get("elasticPolicy"):
        return []
    deciding = "-master-0" if "Master" in spec["pytorchReplicaSpecs"] else ""
    ended = {
        str(last_end(each["status"])): each["metadata"]["name"]
        for each in pods
        if each.get("status", {}).get("phase") == SUCCEEDED
    }
    if not ended:
        return []
    first = min(ended)
    message = f"it started again after {ended[first]} had ended; this run cannot finish"
    return [
        Trouble(f"pod {each['metadata']['name']}", PEER_ENDED, message, hopeless=True)
        for each in pods
        if each["metadata"]["name"].endswith(deciding) and first <= _started_again(each.get("status", {}))
    ]


def _started_again(status: Mapping[str, Any]) -> str:
    """When the pod's container started last; empty if this is its first start, or it does not run."""
    for each in status.get("containerStatuses") or []:
        if each["name"] == PYTORCHJOB.container and each.get("restartCount"):
            return str(((each.get("state") or {}).get("running") or {}).get("startedAt") or "")
    return ""


def containers(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The statuses of a pod's containers, init containers first."""
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def last_end(status: Mapping[str, Any]) -> object:
    """When the last of a pod's containers ended; if none has ended, when the kubelet accepted the pod."""
    ends = [(each.get("state") or {}).get("terminated") or {} for each in containers(status)]
    return max(
        (str(end["finishedAt"]) for end in ends if end.get("finishedAt")), default=status.get("startTime")
    )


def pod_state(pod: dict[str, Any]) -> str:
    """A pod's state in a few words: phase, why it failed or a container waits, and how often containers restarted."""
    status = pod.get("status", {})
    phase = "Terminating" if is_leaving(pod) else status.get("phase") or "Unknown"
    reasons = [((each.get("state") or {}).get("waiting") or {}).get("reason") for each in containers(status)]
    if end := pod_end(pod):
        reasons.insert(0, end.reason)
    waits = next((f" ({reason})" for reason in reasons if reason and reason != "PodInitializing"), "")
    again = restarts([pod])
    return phase + waits + (f" (restarts: {again})" if again else "")


def _container_troubles(pod: str, container: dict[str, Any], has_failed: bool) -> list[Trouble]:
    about = f"pod {pod}"
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    end = _end(container)
    if any(text in f"{message} {end.get('message', '')}" for text in OTHER_PROCESSOR):
        return [wrong_architecture(pod, container["name"])]
    if reason and reason not in (*NOT_YET, BACK_OFF):
        return [Trouble(about, reason, message, hopeless=GIVEN_UP_S.get(reason) == 0)]
    if not end.get("exitCode"):
        return []
    ended = f"exit code {end['exitCode']}, {end.get('reason', 'Error')}"
    if end.get("message"):
        ended += f": {_one_line(end['message'])}"
    if times := int(container.get("restartCount", 0)):
        text = f"container {container['name']} restarted {times} times: {ended}"
        return [Trouble(about, reason or "Restarted", text)]
    # With a TrainJob, and with the restart policy ExitCode, a new pod replaces a failed pod.
    return [Trouble(about, FAILED, f"container {container['name']}: {ended}")] if has_failed else []


def _end(container: dict[str, Any]) -> dict[str, Any]:
    """How the container ended, now or before its last start; empty if it has never ended."""
    for key in ("state", "lastState"):
        if end := (container.get(key) or {}).get("terminated"):
            return dict(end)
    return {}


def wrong_architecture(pod: str, container: str) -> Trouble:
    """The trouble of a container whose image is for another processor than that of its node."""
    message = f"the image of container {container} is for another processor than the node's"
    return Trouble(f"pod {pod}", WRONG_ARCHITECTURE, message, hopeless=True)


def refusals(name: str, events: Iterable[dict[str, Any]]) -> list[Trouble]:
    """Why pods of job `name` could not be created, from its Warning events: a quota, a policy, a webhook.

    An invalid pod stays invalid until the job is replaced.
    """
    latest = sorted(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    found = [Trouble(f"job {name}", each.get("reason", ""), each.get("message", "")) for each in latest[-1:]]
    return [replace(each, hopeless=bool(INVALID.search(each.message))) for each in found]


def wanted_pods(job: dict[str, Any]) -> int:
    """How many pods the job has with all replicas."""
    if "trainer" in job["spec"]:
        return int(job["spec"]["trainer"]["numNodes"])
    return sum(int(each.get("replicas", 1)) for each in job["spec"]["pytorchReplicaSpecs"].values())


def failed_containers(pods: Iterable[dict[str, Any]]) -> list[tuple[str, str, bool]]:
    """Pod and container of each failure, the first one first, and whether a later start exists (`previous`).

    The first failure is the cause: the other replicas fail because of it.
    """
    ends = []
    for pod in pods:
        status = pod.get("status", {})
        for container in containers(status):
            for key, previous in (("state", False), ("lastState", True)):
                end = (container.get(key) or {}).get("terminated")
                if end and end.get("exitCode"):
                    ends.append(
                        (end.get("finishedAt") or "", pod["metadata"]["name"], container["name"], previous)
                    )
    return [(pod, container, previous) for _, pod, container, previous in sorted(ends)]


def restarts(pods: Iterable[dict[str, Any]]) -> int:
    """How often containers of `pods` were started again."""
    statuses = [each for pod in pods for each in pod.get("status", {}).get("containerStatuses") or []]
    return sum(int(each.get("restartCount", 0)) for each in statuses)


def waits_on_node(pod: dict[str, Any]) -> bool:
    """Whether a pod is on a node, and none of its containers was created yet."""
    status = pod.get("status", {})
    states = [(each.get("state") or {}).get("waiting") or {} for each in containers(status)]
    there = bool((pod.get("spec") or {}).get("nodeName")) and status.get("phase") == "Pending"
    return there and all(each.get("reason") in NOT_YET for each in states)


def start_troubles(pod: dict[str, Any], events: Iterable[dict[str, Any]]) -> list[Trouble]:
    """Why a pod on a node cannot get its volumes, network or devices: one trouble, or none.

    Parameters:
        events: events of type Warning about the pod.
    """
    failed = [
        each
        for each in events
        if each.get("reason") in UNMOUNTED or (each.get("source") or {}).get("component") == KUBELET
    ]
    said = [each for each in failed if UNSAID not in each.get("message", "")] or failed
    if not said:
        return []
    last = max(said, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))
    text = last.get("message", "")
    hopeless = last["reason"] in UNMOUNTED and any(each in text for each in NO_CLIENT)
    message = f"on node {pod['spec']['nodeName']}: {_mount_failure(text)}" + (
        f"; {CLIENT}" if hopeless else ""
    )
    return [Trouble(f"pod {pod['metadata']['name']}", last["reason"], message, hopeless)]


def _mount_failure(text: str) -> str:
    """The output of a failed mount, else the kubelet's whole message, in one line."""
    printed = text.partition("\nOutput: ")[2]
    return _one_line(printed or text).rstrip(".")


def _one_line(text: str) -> str:
    return " ".join(text.split())
