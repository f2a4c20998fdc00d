"""Deployments, StatefulSets, DaemonSets and ReplicationControllers."""

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
    """A Deployment is ready when available, with a complete newest ReplicaSet and its claims bound."""
    obj = snapshot.obj
    revision = annotation(obj, _REVISION)
    warnings = [
        f"[{entry['reason']}] {entry['message']}"
        for entry in (condition(obj, "Available"), condition(obj, "Progressing"))
        if entry.get("status") not in (None, "True") and entry.get("reason") and entry.get("message")
    ]
    is_available = condition(obj, "Available").get("status") == "True"
    progressing = condition(obj, "Progressing")
    is_rolled_out = (
        progressing.get("reason") == "NewReplicaSetAvailable" and progressing.get("status") == "True"
    )
    current = [rs for rs in snapshot.owned(REPLICA_SET) if revision and annotation(rs, _REVISION) == revision]
    wanted = number(current[0], "spec", "replicas", default=1) if current else 0
    ready = number(current[0], "status", "readyReplicas") if current else 0
    is_complete = bool(current) and ready >= wanted
    owned = snapshot.owned(POD, current[0]) if current else []
    unbound = _unbound_claims(snapshot)
    if (
        is_observed(obj)
        and is_available
        and is_complete
        and (is_rolled_out or revision == "1")
        and not unbound
    ):
        return Verdict(is_ready=True, status="Deployment initialization complete")
    findings = list(warnings)
    if unbound:
        findings.append(f'Failed to bind PersistentVolumeClaim(s): "{",".join(unbound)}"')
    if not is_available:
        findings.append("Minimum number of live Pods was not attained")
    elif revision == "1":
        findings.append("Minimum number of Pods to consider the application live was not attained")
    else:
        findings.append(
            "Attempted to roll forward to new ReplicaSet, but minimum number of Pods did not become live"
        )
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
    """A StatefulSet is ready when all replicas are ready and of the newest revision.

    With the update strategy OnDelete the user replaces the pods, so that old ones count too.
    """
    obj = snapshot.obj
    wanted = number(obj, "spec", "replicas", default=1)
    ready = number(obj, "status", "readyReplicas")
    current, updated = number(obj, "status", "currentReplicas"), number(obj, "status", "updatedReplicas")
    revision, target = nested(obj, "status", "currentRevision"), nested(obj, "status", "updateRevision")
    is_first = nested(obj, "metadata", "generation", default=1) <= 1
    is_on_delete = nested(obj, "spec", "updateStrategy", "type") == "OnDelete"
    are_ready = number(obj, "status", "replicas") == wanted == ready
    if is_on_delete:
        is_current = is_first or updated == wanted
    else:
        partition = number(obj, "spec", "updateStrategy", "rollingUpdate", "partition")
        are_ready = are_ready and (current == wanted or partition > 0)
        is_current = revision == target or (partition > 0 and updated >= wanted - partition)
    if is_observed(obj) and are_ready and is_current:
        return Verdict(is_ready=True, status="StatefulSet initialization complete")
    owned = snapshot.owned(POD)
    if is_first:
        status = f"[1/2] Waiting for StatefulSet to create Pods ({ready}/{wanted} Pods ready)"
    elif not are_ready:
        status = f"[1/3] Waiting for StatefulSet update to roll out ({ready}/{wanted} Pods ready)"
    else:
        status = "[2/3] Waiting for StatefulSet to update .status.currentRevision"
    findings = []
    if not are_ready:
        findings.append(f"{ready} out of {wanted} replicas succeeded readiness checks")
    if revision != target:
        findings.append(
            f'StatefulSet controller failed to advance from revision "{revision}" to revision "{target}"'
        )
    warnings = _pod_warnings(owned)
    return Verdict(status=status + _pod_status(owned), warnings=warnings, findings=findings + warnings)


def daemon_set(snapshot: Snapshot) -> Verdict:
    """A DaemonSet is ready when every node that should run a pod has a ready one of the newest template."""
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


def replication_controller(snapshot: Snapshot) -> Verdict:
    """A ReplicationController is ready when all of its replicas are available."""
    wanted = number(snapshot.obj, "spec", "replicas", default=1)
    available = number(snapshot.obj, "status", "availableReplicas")
    text = f"{available}/{wanted} replicas available"
    return Verdict(is_ready=is_observed(snapshot.obj) and available == wanted, status=text, findings=[text])


def job(snapshot: Snapshot) -> Verdict:
    """A Job is ready when Complete; a Failed one ends the wait."""
    obj = snapshot.obj
    owned = snapshot.owned(POD)
    failed = condition(obj, "Failed")
    warnings = _pod_warnings(owned)
    if failed.get("status") == "True":
        finding = f"[{failed.get('reason')}] {failed.get('message')}"
        return Verdict(is_hopeless=True, findings=[finding, *warnings])
    if condition(obj, "Complete").get("status") == "True":
        return Verdict(is_ready=True)
    if not nested(obj, "status", "startTime"):
        status = f'Waiting for Job "{snapshot.qualified_name}" to start'
    else:
        active, succeeded, lost = (number(obj, "status", key) for key in ("active", "succeeded", "failed"))
        counts = f"(Active: {active} | Succeeded: {succeeded} | Failed: {lost})"
        status = f'Waiting for Job "{snapshot.qualified_name}" to succeed {counts}'
    # Pods of a job are unready until they end: unreadiness without a reason is not reported.
    news = [line for line in warnings if not line.endswith("]") or "unready status" not in line]
    return Verdict(status=status + _pod_status(owned), warnings=news, findings=warnings)
