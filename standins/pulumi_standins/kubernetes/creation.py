"""Create an object, or preview its creation by a dry run."""

from __future__ import annotations

import copy
from collections.abc import Callable

from pulumi_standins.kubernetes import awaiting, field_managers, type_tokens
from pulumi_standins.kubernetes.errors import ApiError, CancelledError, NoSuchKindError, NotReadyError
from pulumi_standins.kubernetes.objects import PATCH_FORCE, is_annotated, is_crd, kind_of, name_of
from pulumi_standins.kubernetes.posting import post
from pulumi_standins.kubernetes.session import Session, timeout_of
from pulumi_standins.kubernetes.values import Object

# Kinds, namespaces and webhooks of the same program may be ready only a moment later.
_RETRIES = 6
_FIRST_PAUSE = 0.5
_PAUSE_FACTOR = 2.0


class FieldConflictError(Exception):
    """Another manager owns a field that we set."""

    def __init__(self, manager: str, error: ApiError) -> None:
        super().__init__(
            "server-side apply field conflict detected: take the fields out of the program, or set the "
            'annotation pulumi.com/patchForce to "true" to take them over\n'
            f'The resource managed by field manager "{manager}" had an apply conflict: {error}'
        )


class CannotPreviewError(Exception):
    """The server cannot compute the object yet; the preview shows the inputs."""


def is_forced(session: Session, inputs: Object, live: Object | None, *, preview: bool) -> bool:
    """Whether to take fields from other managers: by annotation, by setting, and in previews of our own objects."""
    if is_annotated(inputs, PATCH_FORCE):
        return True
    if session.settings.patch_force is not None:
        return session.settings.patch_force
    return preview and (live is None or field_managers.was_created_by_us(live))


def preview(session: Session, urn: str, inputs: Object, manager: str) -> Object:
    """The object that a dry run returns; raises CannotPreviewError if the server cannot compute it."""
    kind = kind_of(inputs)
    if type_tokens.is_patch(urn, kind.kind) or not session.client.serves(kind):
        raise CannotPreviewError
    try:
        if not session.settings.upsert:
            return session.client.create(inputs, dry_run=True)
        return apply(session, inputs, manager, force=True, preview=True)
    except ApiError as error:
        # The object that will be replaced still exists, and the server refuses changes of its fields.
        if session.settings.upsert and error.code == 422 and "field is immutable" in str(error):
            raise CannotPreviewError from error
        # An existing object of that name is deleted before ours is created, or adopted by an alias.
        if error.already_exists:
            session.engine.status(urn, f"Retry #0; creation failed: {error}")
            raise CannotPreviewError from error
        if error.is_missing_namespace or error.is_forbidden or "does not support dry run" in str(error):
            raise CannotPreviewError from error
        raise


def create(session: Session, urn: str, inputs: Object, manager: str, requested_timeout: float) -> Object:
    """Create and wait until the object is ready; returns it as last seen.

    Parameters:
        inputs: the plain inputs.
        manager: the field manager of applied objects: Patch resources, and objects that may exist already.
        requested_timeout: seconds, from the resource's options; 0 for the annotation's or the kind's default.

    Raises:
        NotReadyError: it was created, but did not become ready.
        ApiError, FieldConflictError, NoSuchKindError, UnreachableError: it was not created.
        UnconfirmedError: it was sent, and its creation is unknown.
        CancelledError: the user asked to stop.
    """
    awaiting.check_annotations(inputs)
    live = _retrying(session, urn, lambda: _send(session, urn, inputs, manager))
    session.engine.status(urn, "")
    seconds = timeout_of(requested_timeout, inputs)
    try:
        live = awaiting.until_ready(session, urn, inputs, live, seconds)
    except NotReadyError:
        raise
    except Exception as error:
        # After any end of the wait: the object exists, so the state must have it.
        raise NotReadyError(f"cannot wait for '{name_of(live)}': {error}", [], live) from error
    if is_crd(live):
        session.client.add_kinds_of(live)
    return live


def _send(session: Session, urn: str, inputs: Object, manager: str) -> Object:
    if session.settings.upsert or type_tokens.is_patch(urn, kind_of(inputs).kind):
        force = is_forced(session, inputs, None, preview=False)
        return apply(session, inputs, manager, force=force, preview=False)
    return post(session, inputs)


def apply(session: Session, inputs: Object, manager: str, *, force: bool, preview: bool) -> Object:
    """Apply as the manager; raises FieldConflictError if another manager owns a field."""
    try:
        return session.client.apply(inputs, manager=manager, force=force, dry_run=preview)
    except ApiError as error:
        if error.is_conflict and not error.is_lost_race:
            raise FieldConflictError(manager, error) from error
        raise


def _retrying(session: Session, urn: str, send: Callable[[], Object]) -> Object:
    pause = _FIRST_PAUSE
    for attempt in range(_RETRIES + 1):
        try:
            return copy.deepcopy(send())
        except (ApiError, NoSuchKindError) as error:
            is_passing = isinstance(error, NoSuchKindError) or error.is_missing
            session.engine.status(urn, f"Retry #{attempt}; creation failed: {error}")
            if not is_passing or attempt == _RETRIES:
                raise
            if isinstance(error, NoSuchKindError):
                session.client.forget()
        if session.cancelled.wait(pause):
            raise CancelledError
        pause *= _PAUSE_FACTOR
    raise AssertionError("unreachable: the last attempt returns or raises")
