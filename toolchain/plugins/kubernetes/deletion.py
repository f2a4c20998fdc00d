"""Delete an object and wait until it is gone."""

from __future__ import annotations

import time

from toolchain.plugins.kubernetes import ownership, types
from toolchain.plugins.kubernetes.errors import ApiError, NoSuchKindError, NotReadyError
from toolchain.plugins.kubernetes.follow import follow
from toolchain.plugins.kubernetes.objects import (
    DELETION_PROPAGATION,
    SKIP_AWAIT,
    Kind,
    annotation,
    is_annotated,
    kind_of,
    name_of,
    namespace_of,
    nested,
)
from toolchain.plugins.kubernetes.session import Session, timeout_of
from toolchain.plugins.kubernetes.state import State
from toolchain.plugins.kubernetes.values import Object

_DEFAULT_SECONDS = 300.0
# About 10,000 replicas go in this time.
_SECONDS = {"apps/v1/Deployment": 600.0, "apps/v1/StatefulSet": 600.0}
# Kinds for which skipAwait also skips waiting for the end; for all others it never did.
_SKIPPABLE = {"Namespace", "Pod", "ReplicationController", "DaemonSet", "Deployment", "StatefulSet", "Job"}
# Nothing built in is ever owned by these, so a foreground deletion would only wait for the garbage collector
# to find that out.
_CHILDLESS = {
    "v1/ConfigMap",
    "v1/Secret",
    "v1/ServiceAccount",
    "v1/LimitRange",
    "v1/ResourceQuota",
    "v1/PersistentVolume",
    "rbac.authorization.k8s.io/v1/ClusterRole",
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
    "rbac.authorization.k8s.io/v1/Role",
    "rbac.authorization.k8s.io/v1/RoleBinding",
    "networking.k8s.io/v1/NetworkPolicy",
    "scheduling.k8s.io/v1/PriorityClass",
    "storage.k8s.io/v1/StorageClass",
}


def delete(session: Session, urn: str, state: State, identifier_name: str, requested_timeout: float) -> None:
    """Delete; an object or a kind that is already gone is fine.

    Raises:
        NotReadyError: it did not go in time; the finalizers that hold it are named.
        CancelledError: the user asked to stop.
    """
    kind = kind_of(state.live)
    try:
        if types.is_patch(urn, kind.kind):
            ownership.relinquish(session.cluster, state.live, state.field_manager)
            return
        namespace = namespace_of(state.live)
        answer = session.cluster.delete(
            kind, namespace, identifier_name, propagation=_propagation(state.inputs, kind)
        )
    except NoSuchKindError:
        return
    except ApiError as error:
        if error.is_missing:
            return
        raise
    if answer.get("kind") == "Status" or not nested(answer, "metadata", "deletionTimestamp"):
        return
    if is_annotated(state.inputs, SKIP_AWAIT) and kind.kind in _SKIPPABLE:
        return
    session.engine.status(urn, "Resource scheduled for deletion")
    seconds = timeout_of(requested_timeout, state.inputs) or _SECONDS.get(str(kind), _DEFAULT_SECONDS)
    _wait(session, urn, kind, answer, seconds)
    session.engine.status(urn, "")


def _propagation(inputs: Object, kind: Kind) -> str:
    asked = annotation(inputs, DELETION_PROPAGATION).lower()
    if asked in ("orphan", "background", "foreground"):
        return asked.capitalize()
    return "Background" if str(kind) in _CHILDLESS else "Foreground"


def _wait(session: Session, urn: str, kind: Kind, going: Object, seconds: float) -> None:
    name, namespace = name_of(going), namespace_of(going)
    uid = nested(going, "metadata", "uid")
    last = going
    for event, obj in follow(
        session.cluster,
        kind,
        namespace,
        until=time.monotonic() + seconds,
        cancelled=session.cancelled,
        since=nested(going, "metadata", "resourceVersion", default=""),
        fieldSelector=f"metadata.name={name}",
    ):
        if event == "DELETED" or nested(obj, "metadata", "uid") != uid:
            return
        last = obj
        session.engine.status(urn, _what_is_left(obj))
    try:
        last = session.cluster.get(kind, namespace, name)
    except ApiError as error:
        if error.is_missing:
            return
        raise
    if nested(last, "metadata", "uid") != uid:
        return
    findings = [f'Timed out waiting for deletion of {kind} "{name}"', *_finalizer_findings(last)]
    raise NotReadyError(f"'{name}' timed out waiting to be Ready", findings, last)


def _what_is_left(obj: Object) -> str:
    finalizers = nested(obj, "metadata", "finalizers", default=[]) or []
    conditions = nested(obj, "status", "conditions", default=[]) or []
    remaining = [
        str(condition.get("message"))
        for condition in conditions
        if condition.get("type") in ("NamespaceContentRemaining", "NamespaceFinalizersRemaining")
        and condition.get("status") == "True"
    ]
    if remaining:
        return "; ".join(remaining)
    return (
        f"Waiting for finalizers: {', '.join(finalizers)}"
        if finalizers
        else "Resource scheduled for deletion"
    )


def _finalizer_findings(obj: Object) -> list[str]:
    held = list(nested(obj, "metadata", "finalizers", default=[]) or [])
    held += [f"{name} (namespace)" for name in nested(obj, "spec", "finalizers", default=[]) or []]
    return [f"finalizer {name} is still set: what it belongs to has to remove it" for name in held]
