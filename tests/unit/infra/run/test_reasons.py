"""What is said of each reason that Kubernetes 1.34 gives a pod, a container or an event, and what comes of it.

Words of `pkg/` of k8s.io/kubernetes v1.34.4, and of `core/v1` and `batch/v1` of k8s.io/api and `pkg/errors` of
k8s.io/cri-api v0.34.4, where a file says so. A reason that is not here is told in its own words, as is any other.
"""

from __future__ import annotations

from typing import Any

import pytest

from infra.run import job_status, waiting
from infra.run.waiting import NoProgressError, RunFailedError
from tests.unit.infra.run.test_run import FakeApi, end, job, pod
from tests.unit.infra.samples import stopped_clock

NOW, SOON, LATER, NO_LIMIT, ORDINARY = 0, 15, 300, None, "nothing is said"
"""When the wait is given up, in seconds; ORDINARY where the reason is part of every start."""

WAITING: dict[Any, dict[str, str]] = {
    ORDINARY: {
        "kubelet/kubelet_pods.go": "ContainerCreating PodInitializing",
        # Its end is told instead, where it was bad.
        "kubelet/container/sync_result.go": "CrashLoopBackOff",
    },
    NOW: {
        "kubelet/images/types.go": "ImageInspectError ErrImageNeverPull InvalidImageName",
        "kubelet/kuberuntime/kuberuntime_container.go": "CreateContainerConfigError",
    },
    SOON: {
        "kubelet/images/types.go": "ImagePullBackOff ErrImagePull",
        "cri-api pkg/errors/errors.go": "RegistryUnavailable SignatureValidationFailed ImageVolumeMountFailed",
        "kubelet/kuberuntime/kuberuntime_container.go": "CreateContainerError",
        "kubelet/container/sync_result.go": "RunContainerError",
    },
    NO_LIMIT: {
        "cri-api pkg/errors/errors.go": "RROUnsupported",
        "kubelet/kuberuntime/kuberuntime_container.go": "PreCreateHookError PreStartHookError PostStartHookError",
        "kubelet/container/sync_result.go": "KillContainerError CreatePodSandboxError ConfigPodSandboxError"
        " KillPodSandboxError ResizePodInPlaceError",
        "unknown": "OfALaterRelease",
    },
}
"""Reasons of a container's waiting state."""

TERMINATED = {
    "kubelet/container/runtime.go": "ContainerStatusUnknown",
    "containerd internal/cri/server/helpers.go": "Error OOMKilled StartError Unknown",
    "kubelet/kuberuntime/kuberuntime_container.go": "ContainerCannotRun",
    "unknown": "OfALaterRelease",
}
"""Reasons of a container's bad end. `Completed` is the good one."""

FAILED = {
    "kubelet/eviction/helpers.go": "Evicted",
    "kubelet/active_deadline.go": "DeadlineExceeded",
    "kubelet/events/event.go": "Preempting",
    "kubelet/nodeshutdown/nodeshutdown_manager.go": "NodeShutdown Terminated",
    "kubelet/cm/admission/errors.go": "UnexpectedAdmissionError",
    "kubelet/lifecycle/handlers.go": "AppArmor PodLevelResourcesNotSupported",
    # OutOf is InsufficientResourcePrefix, before the resource's name.
    "kubelet/lifecycle/predicate.go": "PodOSSelectorNodeLabelDoesNotMatch PodOSNotSupported InvalidNodeInfo"
    " InitContainerRestartPolicyForbidden SupplementalGroupsPolicyNotSupported UnknownReason"
    " UnexpectedPredicateFailureType OutOfcpu OutOfnvidia.com/gpu",
    "unknown": "OfALaterRelease",
}
"""Reasons of a pod that has failed as a whole."""

CONDITIONS = {
    ("api core/v1/types.go", "PodScheduled", "False"): "Unschedulable SchedulingGated SchedulerError",
    ("api core/v1/types.go", "DisruptionTarget", "True"): "TerminationByKubelet PreemptionByScheduler",
    ("registry/core/pod/storage/eviction.go", "DisruptionTarget", "True"): "EvictionByEvictionAPI",
    ("controller/podgc/gc_controller.go", "DisruptionTarget", "True"): "DeletionByPodGC",
    ("controller/tainteviction/taint_eviction.go", "DisruptionTarget", "True"): "DeletionByTaintManager",
    ("unknown", "DisruptionTarget", "True"): "OfALaterRelease",
}

EVENTS: dict[Any, dict[str, str]] = {
    LATER: {"kubelet/events/event.go": "FailedMount FailedAttachVolume FailedMapVolume"},
    NO_LIMIT: {
        "kubelet/events/event.go": "FailedMountOnFilesystemMismatch AlreadyMountedVolume FailedCreatePodSandBox"
        " FailedPodSandBoxStatus FailedPrepareDynamicResources FailedCreatePodContainer FailedKillPod FailedSync"
        " FailedValidation Failed NetworkNotReady",
        "unknown": "OfALaterRelease",
    },
}
"""Reasons of the kubelet's warnings about a pod whose containers it has not made yet."""

BY_JOBS = {
    "controller/controller_utils.go": "FailedCreate FailedDelete",
    "api batch/v1/types.go": "PodFailurePolicy BackoffLimitExceeded DeadlineExceeded MaxFailedIndexesExceeded"
    " FailedIndexes",
    "unknown": "OfALaterRelease",
}
"""Reasons of warnings about a job that lacks pods."""
WORDS = "why, in Kubernetes' own words"


def each(table: dict[str, str], *limit: Any) -> list[Any]:
    """A case for each reason of each source, with the limit that all of them have."""
    return [
        pytest.param(reason, *limit, id=f"{reason} of {source}")
        for source, reasons in table.items()
        for reason in reasons.split()
    ]


def limited(tables: dict[Any, dict[str, str]]) -> list[Any]:
    """The cases of all limits."""
    return [case for limit, table in tables.items() for case in each(table, limit)]


def lasts(monkeypatch: pytest.MonkeyPatch, api: FakeApi) -> tuple[float, str]:
    """For how long, in seconds, the job is waited for, and the error's text; a look every 10 s."""
    clock = stopped_clock(monkeypatch)

    def looks(of: FakeApi = api) -> Any:
        while True:
            yield of._jobs[0]
            clock[0] += 10

    monkeypatch.setattr(api, "observations", looks)
    with pytest.raises(RunFailedError) as failed:
        end(api)
    assert isinstance(failed.value, NoProgressError) == (clock[0] >= waiting.NO_PROGRESS_S)
    return clock[0], str(failed.value)


def waits(**status: Any) -> dict[str, Any]:
    return {**pod(phase="Pending", **status), "spec": {"nodeName": "node-1"}}


@pytest.mark.parametrize(("reason", "limit"), limited(WAITING))
def test_a_container_that_waits(monkeypatch: pytest.MonkeyPatch, reason: str, limit: Any) -> None:
    state = {"waiting": {"reason": reason, "message": WORDS}}
    api = FakeApi([job("Created")], [waits(containerStatuses=[{"name": "pytorch", "state": state}])])
    seconds, error = lasts(monkeypatch, api)
    said = f"pod j-master-0: {reason}: {WORDS}"
    assert (said in error) == (said in "".join(api.shown)) == (limit != ORDINARY)
    _ensure_given_up(seconds, None if limit == ORDINARY else limit)


@pytest.mark.parametrize("reason", each(TERMINATED))
def test_a_container_that_has_ended_badly(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    ended = {"terminated": {"exitCode": 128, "reason": reason, "message": f"{WORDS}\n"}}
    states = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended, "restartCount": 2}
    api = FakeApi([job("Running")], [pod(phase="Running", containerStatuses=[{"name": "pytorch", **states}])])
    seconds, error = lasts(monkeypatch, api)
    said = f"CrashLoopBackOff: container pytorch restarted 2 times: exit code 128, {reason}: {WORDS}"
    assert said in error
    _ensure_given_up(seconds, NO_LIMIT)


@pytest.mark.parametrize("reason", each(FAILED))
def test_a_pod_that_has_failed_as_a_whole(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    killed = {"terminated": {"exitCode": 137, "reason": "Error"}}
    containers = [{"name": "pytorch", "state": killed}]
    failed = pod(phase="Failed", reason=reason, message=WORDS, containerStatuses=containers)
    api = FakeApi([job("Restarting")], [failed])
    seconds, error = lasts(monkeypatch, api)
    assert f"pod j-master-0: {reason}: {WORDS}" in error
    assert "exit code 137" not in error
    assert api.shown[0] == f"j: pods: j-master-0 Failed ({reason})"
    _ensure_given_up(seconds, NO_LIMIT)


def test_a_pod_on_a_node_that_is_lost_runs_on_as_far_as_anybody_knows() -> None:
    """Source: SetPodTerminationReason in controller/util/node/controller_utils.go."""
    lost = pod(phase="Running", reason="NodeLost", message=WORDS)
    assert [str(found) for found in job_status.troubles([lost])] == [f"pod j-master-0: NodeLost: {WORDS}"]


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        (kind, status, reason)
        for (_, kind, status), reasons in CONDITIONS.items()
        for reason in reasons.split()
    ],
)
def test_a_condition_of_a_pod(monkeypatch: pytest.MonkeyPatch, kind: str, status: str, reason: str) -> None:
    condition = {"type": kind, "status": status, "reason": reason, "message": WORDS}
    api = FakeApi([job("Created")], [pod(phase="Pending", conditions=[condition])])
    seconds, error = lasts(monkeypatch, api)
    assert f"pod j-master-0: {reason}: {WORDS}" in error
    _ensure_given_up(seconds, NO_LIMIT)


@pytest.mark.parametrize(("reason", "limit"), limited(EVENTS))
def test_a_warning_about_a_pod_that_waits(
    monkeypatch: pytest.MonkeyPatch, reason: str, limit: float | None
) -> None:
    event = {"reason": reason, "message": WORDS, "source": {"component": "kubelet"}}
    stale = {"reason": "FailedScheduling", "message": "0/1 nodes", "lastTimestamp": "2026-01-01T00:00:00Z"}
    api = FakeApi([job("Created")], [waits()], events=[event, stale])
    seconds, error = lasts(monkeypatch, api)
    assert f"pod j-master-0: {reason}: on node node-1: {WORDS}" in error
    assert "FailedScheduling" not in error, "it has been scheduled"
    _ensure_given_up(seconds, limit)


@pytest.mark.parametrize("reason", each(BY_JOBS))
def test_a_warning_about_a_job_without_pods(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    api = FakeApi([job("Created")], events=[{"reason": reason, "message": WORDS}])
    seconds, error = lasts(monkeypatch, api)
    assert f"job j: {reason}: {WORDS}" in error
    _ensure_given_up(seconds, NO_LIMIT)


def test_only_a_mount_fails_for_want_of_a_client() -> None:
    said: dict[str, Any] = {"reason": "FailedCreatePodSandBox", "message": "nvidia: No such device"}
    said |= {"source": {"component": "kubelet"}}
    (trouble,) = job_status.start_troubles(waits(), [said])
    assert (trouble.hopeless, job_status.CLIENT in trouble.message) == (False, False)


def _ensure_given_up(seconds: float, limit: float | None) -> None:
    """At the look after the limit; without one, when nothing has changed for long. A reason that stays is no change."""
    expected = waiting.NO_PROGRESS_S if limit is None else limit
    assert expected <= seconds <= expected + 10


def test_every_reason_that_ends_the_wait_is_in_the_tables() -> None:
    given_up = {
        reason: limit
        for tables in (WAITING, EVENTS)
        for limit, table in tables.items()
        for reason in " ".join(table.values()).split()
        if limit not in (NO_LIMIT, ORDINARY)
    }
    assert given_up == job_status.GIVEN_UP_S
