"""Judges a job and its pods from what the API says about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from infra import agreed
from infra.objects.job_kinds import PYTORCHJOB

SUCCEEDED, FAILED = ENDS = agreed.SUCCEEDED, agreed.FAILED
SUSPENDED = agreed.SUSPENDED
# A TrainJob's word for it.
COMPLETE = "Complete"
# A job in one of these conditions has all the pods that it will get.
ENDED = {*ENDS, SUSPENDED}
UNMOUNTED = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
"""Reasons of the kubelet's events. It tries again, with pauses of up to two minutes."""
GIVEN_UP_S: dict[str, float] = {
    # A waiting container in one of these states never starts by itself.
    **dict.fromkeys(
        ("InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "CreateContainerConfigError"), 0
    ),
    # These are tried again and may pass, a registry's hiccup for example; not for long.
    **dict.fromkeys(
        ("ImagePullBackOff", "ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed"), 15
    ),
    **dict.fromkeys(("CreateContainerError", "ImageVolumeMountFailed", "RunContainerError"), 15),
    # The kubelet tries at least twice more.
    **dict.fromkeys(UNMOUNTED, 300),
}
"""Reason of a pod, a container or an event -> for how long, in seconds, the job is waited for with it.

Any other is told in its own words, and waited for as long as something changes.
"""
# What the kernel says about a program for another processor, and containerd about an image without this one's.
OTHER_PROCESSOR = ("exec format error", "no match for platform")
WRONG_ARCHITECTURE = "WrongArchitecture"
# What mount says where nothing on the node can mount this kind: no program for it, or a kernel without it.
NO_CLIENT = ("/sbin/mount.<type> helper", "unknown filesystem type", "No such device")
CLIENT = "the node has no client for such volumes; for NFS that is mount.nfs (Debian: nfs-common) and a kernel with NFS"
# What the kubelet says in between, without the reason.
UNSAID = "Unable to attach or mount volumes"
NOT_YET = ("ContainerCreating", "PodInitializing")
BACK_OFF = "CrashLoopBackOff"
"""The reason of a container that has ended: how it has is what matters."""
KUBELET = "kubelet"
DISRUPTED = "DisruptionTarget"
"""The condition of a pod that the scheduler, a drain, a taint or a clean-up ends."""
PEER_ENDED = "PeerEnded"
"""Our reason of a replica that has started again when another one had succeeded."""
EVICTED = "Evicted"
"""The reason of a pod that its kubelet has ended, and of the event about it."""
# Source: emptyDirMessageFmt in pkg/kubelet/eviction/helpers.go of Kubernetes 1.34.
FULL_VOLUME = re.compile(
    r'EmptyDir volume "(?P<name>[^"]+)" exceeds the limit "(?P<number>\d+)(?P<unit>\w*)"'
)
# Source: containerEphemeralStorageMessageFmt and podEphemeralStorageMessageFmt there.
FULL_STORAGE = re.compile(
    r"(?:Container (?:pytorch|node) exceeded its local ephemeral storage limit|exceeds the total limit of containers)"
    r' "?(?P<number>\d+)(?P<unit>\w*)'
)
MORE_ROOM = 5
"""How many times its limit what was full is to have."""
# Source: NewInvalid in pkg/api/errors/errors.go of k8s.io/apimachinery 0.34.
INVALID = re.compile(r'Pod "[^"]*" is invalid: ')


@dataclass(frozen=True)
class Trouble:
    """Why a pod does not run, or is not there.

    Parameters:
        about: `pod <name>`, or `job <name>` where no pod could be created.
        reason, message: as Kubernetes words them.
        hopeless: whether waiting cannot mend it.
    """

    about: str
    reason: str
    message: str
    hopeless: bool = False

    @property
    def limit_s(self) -> float | None:
        """For how long, in seconds, the job is waited for with it; None for as long as something changes."""
        return 0 if self.hopeless else GIVEN_UP_S.get(self.reason)

    def __str__(self) -> str:
        return f"{self.about}: {self.reason}" + (f": {self.message}" if self.message else "")


def condition(job: dict[str, Any]) -> tuple[str, str]:
    """Type and message of the condition that holds now; the operator adds them in the order of time.

    A TrainJob has none while it runs; its Jobs tell whether pods are there.
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
    """What keeps pods from running, from their conditions, their own reasons and the states of their containers."""
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
    """Why a pod as a whole has failed, as its kubelet or a controller words it; None where its containers decided."""
    status = pod.get("status", {})
    if status.get("phase") != FAILED or not status.get("reason"):
        return None
    return _pod_failure(pod["metadata"]["name"], status)


def eviction(pod: str, events: Iterable[Mapping[str, Any]]) -> Trouble | None:
    """Of the pod with this name, which may be gone, from the events of type Warning about it."""
    return next((_pod_failure(pod, each) for each in events if each.get("reason") == EVICTED), None)


def counted(evicted: Trouble, number: int, job: Mapping[str, Any]) -> Trouble:
    """The last of `number` evictions, which count as restarts: hopeless when `job` allows no more of them.

    The operator counts the restarts of containers alone: it would replace evicted pods until the job's deadline.
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
        message += f" Give a replica more: `job: {{resources: {{ephemeral-storage: {room}}}}}`"
    return Trouble(f"pod {pod}", said["reason"], message)


def stranded(job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> list[Trouble]:
    """Of each replica that waits for one that has succeeded, and without which a PyTorchJob cannot end.

    A master decides alone about its job's end, without one all workers do. Elastic workers go on without others. All
    pods of a TrainJob start again together.
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
    message = f"it has started again, and {ended[first]} has ended; this run cannot finish"
    return [
        Trouble(f"pod {each['metadata']['name']}", PEER_ENDED, message, hopeless=True)
        for each in pods
        if each["metadata"]["name"].endswith(deciding) and first <= _started_again(each.get("status", {}))
    ]


def _started_again(status: Mapping[str, Any]) -> str:
    """When the pod's replica began its present start; empty where that is its first one, or has not begun."""
    for each in status.get("containerStatuses") or []:
        if each["name"] == PYTORCHJOB.container and each.get("restartCount"):
            return str(((each.get("state") or {}).get("running") or {}).get("startedAt") or "")
    return ""


def containers(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a pod's status says of its containers, those that prepare it first."""
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def last_end(status: Mapping[str, Any]) -> object:
    """When the last of a pod's containers ended; where none had begun, when its kubelet took the pod."""
    ends = [(each.get("state") or {}).get("terminated") or {} for each in containers(status)]
    return max(
        (str(end["finishedAt"]) for end in ends if end.get("finishedAt")), default=status.get("startTime")
    )


def pod_state(pod: dict[str, Any]) -> str:
    """One or two words: phase, why it has failed or what a container waits for, and how often containers restarted."""
    status = pod.get("status", {})
    phase = "Terminating" if pod["metadata"].get("deletionTimestamp") else status.get("phase") or "Unknown"
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
    # Another pod takes the place of one that has failed: of a TrainJob, and with the policy ExitCode.
    return [Trouble(about, FAILED, f"container {container['name']}: {ended}")] if has_failed else []


def _end(container: dict[str, Any]) -> dict[str, Any]:
    """How the container ended, now or before its last start; empty where it has not."""
    for key in ("state", "lastState"):
        if end := (container.get(key) or {}).get("terminated"):
            return dict(end)
    return {}


def wrong_architecture(pod: str, container: str) -> Trouble:
    """The trouble of a container whose image is for another processor than its node's."""
    message = f"the image of container {container} is for another processor than the node's"
    return Trouble(f"pod {pod}", WRONG_ARCHITECTURE, message, hopeless=True)


def refusals(name: str, events: Iterable[dict[str, Any]]) -> list[Trouble]:
    """Why pods of job `name` could not be created, from its Warning events: a quota, a policy, a webhook.

    A pod that the API server finds invalid stays so until the job is another one.
    """
    latest = sorted(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    found = [Trouble(f"job {name}", each.get("reason", ""), each.get("message", "")) for each in latest[-1:]]
    return [replace(each, hopeless=bool(INVALID.search(each.message))) for each in found]


def wanted_pods(job: dict[str, Any]) -> int:
    """How many pods the job's replicas come to."""
    if "trainer" in job["spec"]:
        return int(job["spec"]["trainer"]["numNodes"])
    return sum(int(each.get("replicas", 1)) for each in job["spec"]["pytorchReplicaSpecs"].values())


def failed_containers(pods: Iterable[dict[str, Any]]) -> list[tuple[str, str, bool]]:
    """Pod and container of each bad end, and whether its log is that of the `previous` start.

    The first to end badly is to blame: its peers only follow it.
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
    """Whether a pod is on a node, and none of its containers has been made yet."""
    status = pod.get("status", {})
    states = [(each.get("state") or {}).get("waiting") or {} for each in containers(status)]
    there = bool((pod.get("spec") or {}).get("nodeName")) and status.get("phase") == "Pending"
    return there and all(each.get("reason") in NOT_YET for each in states)


def start_troubles(pod: dict[str, Any], events: Iterable[dict[str, Any]]) -> list[Trouble]:
    """What keeps a pod on a node from its volumes, network or devices, where its containers wait: one trouble, or none.

    Parameters:
        events: those of type Warning about the pod.
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
    """Of mount's failure what it has printed, else all that the kubelet says, in one line."""
    printed = text.partition("\nOutput: ")[2]
    return _one_line(printed or text).rstrip(".")


def _one_line(text: str) -> str:
    return " ".join(text.split())
