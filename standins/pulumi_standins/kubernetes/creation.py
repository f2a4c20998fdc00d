"""Create an object, or preview its creation by a dry run."""

from __future__ import annotations

import copy
from collections.abc import Callable

from pulumi_standins.kubernetes import awaiting, deprecations, field_managers, type_tokens
from pulumi_standins.kubernetes.errors import ApiError, CancelledError, NoSuchKindError, NotReadyError
from pulumi_standins.kubernetes.objects import PATCH_FORCE, Kind, is_annotated, is_crd, kind_of, name_of
from pulumi_standins.kubernetes.posting import post
from pulumi_standins.kubernetes.session import Session, timeout_of
from pulumi_standins.kubernetes.values import Object

# Kinds, namespaces and webhooks that the same program makes may need a moment.
_RETRIES = 6
_FIRST_PAUSE = 0.5
_PAUSE_FACTOR = 2.0


class CannotPreviewError(Exception):
    """The server cannot tell yet what the object would become; the preview shows the inputs."""


def is_forced(session: Session, inputs: Object, live: Object | None, *, preview: bool) -> bool:
    """Whether to take fields from other managers: by annotation, by setting, and in previews of our own objects."""
    if is_annotated(inputs, PATCH_FORCE):
        return True
    if session.settings.patch_force is not None:
        return session.settings.patch_force
    return preview and (live is None or field_managers.was_created_by_us(live))


def preview(session: Session, urn: str, inputs: Object) -> Object:
    """The object as a dry run returns it; raises CannotPreviewError where the server cannot tell."""
    kind = kind_of(inputs)
    if type_tokens.is_patch(urn, kind.kind) or not session.client.serves(kind):
        raise CannotPreviewError
    try:
        return session.client.create(inputs, dry_run=True)
    except ApiError as error:
        # An existing object of that name is replaced before ours is made, or adopted by an alias.
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
        manager: the field manager of Patch resources.
        requested_timeout: seconds, from the resource's options; 0 for the annotation's or the kind's own.

    Raises:
        NotReadyError: it was created, but did not become ready.
        ApiError, NoSuchKindError, RemovedKindError, UnreachableError: it was not created.
        UnconfirmedError: it was sent, and nobody knows whether it was created.
        CancelledError: the user asked to stop.
    """
    awaiting.check_annotations(inputs)
    live = _retrying(session, urn, kind_of(inputs), lambda: _send(session, urn, inputs, manager))
    session.engine.status(urn, "")
    seconds = timeout_of(requested_timeout, inputs)
    try:
        live = awaiting.until_ready(session, urn, inputs, live, seconds)
    except NotReadyError:
        raise
    except Exception as error:
        # Whatever ends the wait: the object is there, so the state has to have it.
        raise NotReadyError(f"cannot wait for '{name_of(live)}': {error}", [], live) from error
    if is_crd(live):
        session.client.add_kinds_of(live)
    return live


def _send(session: Session, urn: str, inputs: Object, manager: str) -> Object:
    if type_tokens.is_patch(urn, kind_of(inputs).kind):
        force = is_forced(session, inputs, None, preview=False)
        return session.client.apply(inputs, manager=manager, force=force)
    return post(session, inputs)


def _retrying(session: Session, urn: str, kind: Kind, send: Callable[[], Object]) -> Object:
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
                deprecations.check_served(kind, session.client.release)
                session.client.forget()
        if session.cancelled.wait(pause):
            raise CancelledError
        pause *= _PAUSE_FACTOR
    raise AssertionError("unreachable: the last attempt returns or raises")
