"""Delete an object and wait until it is gone."""

from __future__ import annotations

from pulumi_standins.kubernetes import field_managers, posting, type_tokens
from pulumi_standins.kubernetes.awaiting.snapshot import Rule, Snapshot, Verdict
from pulumi_standins.kubernetes.awaiting.wait_loop import wait
from pulumi_standins.kubernetes.errors import ApiError, NoSuchKindError, NotReadyError, UnreachableError
from pulumi_standins.kubernetes.objects import (
    DELETION_PROPAGATION,
    SKIP_AWAIT,
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

_SECONDS = 600.0
# Kinds for which skipAwait also skips the wait for the deletion; for others it does not.
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
    """A Patch cannot be deleted while the object needs a field of the Patch."""

    def __init__(self, field: str) -> None:
        super().__init__(
            "this Patch resource is currently managing a required field, so it can't be deleted directly. Either "
            "set the `retainOnDelete` resource option, or transfer ownership of the field before deleting: "
            f"{field}"
        )


def delete(session: Session, urn: str, state: State, identifier_name: str, requested_timeout: float) -> None:
    """Delete the object and wait until it is gone; a missing object is no error.

    Parameters:
        identifier_name: the name in the resource's id.
        requested_timeout: seconds, from the resource's options; 0 for the annotation's or the kind's default.

    Raises:
        NotReadyError: it still exists at the time-out, or the user asked to stop; the error names its finalizers.
        UnreachableError: the server has been away for longer than our patience.
        RequiredFieldError: a Patch owns a field that the object needs.
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
    seconds = timeout_of(requested_timeout, state.inputs) or _SECONDS
    _wait(session, urn, answer, seconds)
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


def _wait(session: Session, urn: str, deleting: Object, seconds: float) -> None:
    uid = nested(deleting, "metadata", "uid")

    def judge(snapshot: Snapshot) -> Verdict:
        obj, kind = snapshot.obj, kind_of(deleting)
        last = session.client.find(kind, namespace_of(obj), name_of(obj)) if snapshot.is_last_look else obj
        if snapshot.is_gone or last is None or nested(last, "metadata", "uid") != uid:
            return Verdict(is_ready=True)
        snapshot.obj = last
        waited = "Stopped waiting" if session.cancelled.is_set() else "Timed out waiting"
        findings = [f'{waited} for deletion of {kind} "{snapshot.name}"', *_finalizer_findings(last)]
        return Verdict(status=_deletion_status(last), findings=findings)

    try:
        wait(session, urn, Rule(judge, until_gone=True), deleting, seconds)
    except NotReadyError as problem:
        # The provider's options say whether the object then counts as gone.
        if isinstance(problem.__cause__, UnreachableError):
            raise problem.__cause__ from problem
        raise


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
    return [f"finalizer {name} is still set: the controller that set it must remove it" for name in held]
