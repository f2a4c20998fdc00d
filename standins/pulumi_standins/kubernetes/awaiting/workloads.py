"""Deployments, StatefulSets, DaemonSets and Jobs."""

from __future__ import annotations

from pulumi_standins.kubernetes.awaiting import pods
from pulumi_standins.kubernetes.awaiting.snapshot import (
    CLAIM,
    POD,
    REPLICA_SET,
    Snapshot,
    Verdict,
    condition,
    is_observed,
    number,
)
from pulumi_standins.kubernetes.objects import annotation, nested
from pulumi_standins.kubernetes.values import Object

_REVISION = "deployment.kubernetes.io/revision"


def _pod_warnings(owned: list[Object]) -> list[str]:
    return [line for pod in owned for line in pods.problems(pod)]


def _pod_status(owned: list[Object]) -> str:
    waiting = [
        f"Pod {pod['metadata']['name']}: {pods.describe(pod)}"
        for pod in owned
        if condition(pod, "Ready").get("status") != "True"
    ]
    return f"; {waiting[0]}" if waiting else ""


def deployment(snapshot: Snapshot) -> Verdict:
    """A Deployment is ready when it is available, its newest ReplicaSet is complete and its claims are bound."""
    obj = snapshot.obj
    revision = annotation(obj, _REVISION)
    available, progressing = condition(obj, "Available"), condition(obj, "Progressing")
    warnings = [
        f"[{entry['reason']}] {entry['message']}"
        for entry in (available, progressing)
        if entry.get("status") not in (None, "True") and entry.get("reason") and entry.get("message")
    ]
    is_available = available.get("status") == "True"
    is_rolled_out = revision == "1" or (
        progressing.get("reason") == "NewReplicaSetAvailable" and progressing.get("status") == "True"
    )
    current = [rs for rs in snapshot.owned(REPLICA_SET) if revision and annotation(rs, _REVISION) == revision]
    wanted = number(current[0], "spec", "replicas", default=1) if current else 0
    ready = number(current[0], "status", "readyReplicas") if current else 0
    is_complete = bool(current) and ready >= wanted
    unbound = _unbound_claims(snapshot)
    is_seen = snapshot.is_single_look or is_observed(obj)
    if is_seen and is_available and is_rolled_out and is_complete and not unbound:
        nothing = [f'Replicas scaled to 0 for Deployment "{snapshot.name}"'] if wanted == 0 else []
        return Verdict(is_ready=True, status="Deployment initialization complete", warnings=nothing)
    findings = list(warnings)
    if unbound:
        findings.append(f'Failed to bind PersistentVolumeClaim(s): "{",".join(unbound)}"')
    if not is_available:
        findings.append("Minimum number of live Pods was not attained")
    elif revision == "1" or not is_rolled_out:
        findings.append("Minimum number of Pods to consider the application live was not attained")
    else:
        findings.append(
            "Attempted to roll forward to new ReplicaSet, but minimum number of Pods did not become live"
        )
    owned = snapshot.owned(POD, current[0]) if current else []
    pod_warnings = _pod_warnings(owned)
    status = f"Waiting for app ReplicaSet to be available ({ready}/{wanted} Pods available)"
    return Verdict(
        status=(status + _pod_status(owned)) if current else "",
        warnings=warnings + pod_warnings,
        findings=findings + pod_warnings,
    )


def _unbound_claims(snapshot: Snapshot) -> list[str]:
    volumes = nested(snapshot.obj, "spec", "template", "spec", "volumes", default=[]) or []
    mounted = {nested(volume, "persistentVolumeClaim", "claimName") for volume in volumes}
    return [
        str(claim["metadata"]["name"])
        for claim in snapshot.all(CLAIM)
        if claim["metadata"]["name"] in mounted and nested(claim, "status", "phase") != "Bound"
    ]


def stateful_set(snapshot: Snapshot) -> Verdict:
    """A StatefulSet is ready when all replicas are ready and have the newest revision.

    With the update strategy OnDelete the user replaces the pods, so old pods count, too, after an update.
    """
    obj = snapshot.obj
    wanted, ready = number(obj, "spec", "replicas", default=1), number(obj, "status", "readyReplicas")
    revision = nested(obj, "status", "currentRevision", default="")
    target = nested(obj, "status", "updateRevision", default="")
    is_first = nested(obj, "metadata", "generation", default=1) <= 1
    is_on_delete = not is_first and nested(obj, "spec", "updateStrategy", "type") == "OnDelete"
    is_current = is_on_delete or (bool(revision) and revision == target)
    are_ready = number(obj, "status", "replicas") == wanted == ready
    are_ready = are_ready and (is_on_delete or number(obj, "status", "currentReplicas") == wanted)
    if is_observed(obj) and are_ready and is_current:
        return Verdict(is_ready=True, status="StatefulSet initialization complete")
    # During a roll-out, ready pods of the old revision do not count.
    counted = ready if is_current else min(ready, number(obj, "status", "updatedReplicas"))
    if is_first:
        status = f"[1/2] Waiting for StatefulSet to create Pods ({counted}/{wanted} Pods ready)"
    elif not are_ready:
        status = f"[1/3] Waiting for StatefulSet update to roll out ({counted}/{wanted} Pods ready)"
    else:
        status = "[2/3] Waiting for StatefulSet to update .status.currentRevision"
    findings = [] if are_ready else [f"{counted} out of {wanted} replicas succeeded readiness checks"]
    if not is_current:
        findings.append(
            f'StatefulSet controller failed to advance from revision "{revision}" to revision "{target}"'
        )
    owned = snapshot.owned(POD)
    warnings = _pod_warnings(owned)
    return Verdict(status=status + _pod_status(owned), warnings=warnings, findings=findings + warnings)


def daemon_set(snapshot: Snapshot) -> Verdict:
    """A DaemonSet is ready when every node that should run a pod has a ready pod of the newest template."""
    obj = snapshot.obj
    desired = nested(obj, "status", "desiredNumberScheduled")
    owned = snapshot.owned(POD)
    warnings = _pod_warnings(owned)
    status = ""
    if not is_observed(obj) or desired is None:
        status = "Waiting for the DaemonSet controller"
    else:
        for label, key in (
            ("Current", "currentNumberScheduled"),
            ("Updated", "updatedNumberScheduled"),
            ("Available", "numberAvailable"),
            ("Ready", "numberReady"),
        ):
            if number(obj, "status", key) < desired:
                status = f"{label}: {number(obj, 'status', key)}/{desired}"
                break
    if not status:
        return Verdict(is_ready=True, status=f"All replicas scheduled as expected. Replicas: {desired}")
    return Verdict(status=status + _pod_status(owned), warnings=warnings, findings=[status, *warnings])


def job(snapshot: Snapshot) -> Verdict:
    """A Job is ready when Complete; a Failed Job ends the wait."""
    obj = snapshot.obj
    if not nested(obj, "status", "startTime"):
        status = f'Waiting for Job "{snapshot.qualified_name}" to start'
        return Verdict(status=status, findings=[status])
    owned = snapshot.owned(POD)
    failed = condition(obj, "Failed")
    warnings = _pod_warnings(owned)
    if failed.get("status") == "True":
        finding = f"[{failed.get('reason')}] {failed.get('message')}"
        return Verdict(is_hopeless=True, findings=[finding, *warnings])
    if condition(obj, "Complete").get("status") == "True":
        return Verdict(is_ready=True)
    active, succeeded, lost = (number(obj, "status", key) for key in ("active", "succeeded", "failed"))
    counts = f"(Active: {active} | Succeeded: {succeeded} | Failed: {lost})"
    status = f'Waiting for Job "{snapshot.qualified_name}" to succeed {counts}'
    # A job's pods are unready while they run, so an unready pod is reported only with a reason.
    news = [line for line in warnings if not line.endswith("]") or "unready status" not in line]
    return Verdict(status=status + _pod_status(owned), warnings=news, findings=warnings)
