"""Delete an object and wait until it is gone."""

from __future__ import annotations

import time

from pulumi_standins.kubernetes import field_managers, posting, type_tokens
from pulumi_standins.kubernetes.errors import ApiError, CancelledError, NoSuchKindError, NotReadyError
from pulumi_standins.kubernetes.follow import follow
from pulumi_standins.kubernetes.objects import (
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
from pulumi_standins.kubernetes.session import Session, timeout_of
from pulumi_standins.kubernetes.state import State
from pulumi_standins.kubernetes.values import Object

_DEFAULT_SECONDS = 300.0
# About 10,000 replicas go in this time.
_SECONDS = {"apps/v1/Deployment": 600.0, "apps/v1/StatefulSet": 600.0, "v1/ReplicationController": 600.0}
# Kinds for which skipAwait also skips waiting for the end; for all others it never did.
_SKIPPABLE = {
    ("", "Namespace"),
    ("", "Pod"),
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("batch", "Job"),
}


class RequiredFieldError(Exception):
    """A Patch cannot be deleted while the object needs a field of it."""

    def __init__(self, field: str) -> None:
        super().__init__(
            "this Patch resource is currently managing a required field, so it can't be deleted directly. Either "
            "set the `retainOnDelete` resource option, or transfer ownership of the field before deleting: "
            f"{field}"
        )


def delete(session: Session, urn: str, state: State, identifier_name: str, requested_timeout: float) -> None:
    """Delete the object and wait until it is gone; one that is not there is no error.

    Parameters:
        identifier_name: the name in the resource's id.
        requested_timeout: seconds, from the resource's options; 0 for the annotation's or the kind's own.

    Raises:
        NotReadyError: it did not go in time, or the user asked to stop; the finalizers that hold it are named.
        RequiredFieldError: a Patch owns a field that the object cannot be without.
    """
    kind = kind_of(state.live)
    if state.is_unconfirmed and posting.confirm(session, state) is None:
        return
    try:
        if type_tokens.is_patch(urn, kind.kind):
            _delete_patch(session, state)
            return
        namespace = namespace_of(state.live)
        answer = session.client.delete(
            kind, namespace, identifier_name, propagation=_propagation(state.inputs)
        )
    except NoSuchKindError:
        return
    except ApiError as error:
        if error.is_missing:
            return
        raise
    if answer.get("kind") == "Status" or not nested(answer, "metadata", "deletionTimestamp"):
        return
    if is_annotated(state.inputs, SKIP_AWAIT) and (kind.group, kind.kind) in _SKIPPABLE:
        return
    session.engine.status(urn, "Resource scheduled for deletion")
    seconds = timeout_of(requested_timeout, state.inputs) or _SECONDS.get(str(kind), _DEFAULT_SECONDS)
    _wait(session, urn, kind, answer, seconds)
    session.engine.status(urn, "")


def _delete_patch(session: Session, state: State) -> None:
    try:
        field_managers.relinquish(session.client, state.live, state.field_manager)
    except ApiError as error:
        required = [c.get("field") for c in error.causes if c.get("reason") == "FieldValueRequired"]
        if not required:
            raise
        raise RequiredFieldError(str(required[0])) from error


def _propagation(inputs: Object) -> str:
    policy = annotation(inputs, DELETION_PROPAGATION).lower()
    if policy in ("orphan", "background", "foreground"):
        return policy.capitalize()
    return "Foreground"


def _wait(session: Session, urn: str, kind: Kind, deleting: Object, seconds: float) -> None:
    name, namespace = name_of(deleting), namespace_of(deleting)
    uid = nested(deleting, "metadata", "uid")
    why, waited = f"'{name}' timed out waiting to be Ready", "Timed out waiting"
    try:
        for event, obj in follow(
            session.client,
            kind,
            namespace,
            until=time.monotonic() + seconds,
            cancelled=session.cancelled,
            name=name,
            since=nested(deleting, "metadata", "resourceVersion", default=""),
        ):
            if event == "DELETED" or nested(obj, "metadata", "uid") != uid:
                return
            session.engine.status(urn, _deletion_status(obj))
    except CancelledError:
        why, waited = f'Resource operation was cancelled for "{name}"', "Stopped waiting"
    try:
        last = session.client.get(kind, namespace, name)
    except ApiError as error:
        if error.is_missing:
            return
        raise
    if nested(last, "metadata", "uid") != uid:
        return
    findings = [f'{waited} for deletion of {kind} "{name}"', *_finalizer_findings(last)]
    raise NotReadyError(why, findings, last)


def _deletion_status(obj: Object) -> str:
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
