"""Create an object, or let the server say what creating it would give."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable

from pulumi_standins.kubernetes import awaiting, lifecycle, ownership, types
from pulumi_standins.kubernetes.errors import ApiError, CancelledError, NoSuchKindError
from pulumi_standins.kubernetes.objects import (
    PATCH_FORCE,
    Kind,
    is_annotated,
    is_crd,
    kind_of,
    name_of,
    namespace_of,
)
from pulumi_standins.kubernetes.session import Session, timeout_of
from pulumi_standins.kubernetes.transport import AmbiguousError
from pulumi_standins.kubernetes.values import Object

# Kinds, namespaces and webhooks that the same program makes may need a moment.
_RETRIES = 6
_FIRST_PAUSE = 0.5
_PAUSE_FACTOR = 2.0


class CannotPreviewError(Exception):
    """What the object would become cannot be known yet; its inputs have to do."""


def is_forced(inputs: Object, live: Object | None, *, preview: bool) -> bool:
    """Whether to take fields from other managers."""
    if is_annotated(inputs, PATCH_FORCE):
        return True
    ambient = os.environ.get("PULUMI_K8S_ENABLE_PATCH_FORCE")
    if ambient is not None:
        return ambient == "true"
    return preview and (live is None or ownership.was_created_by_us(live))


def preview(session: Session, urn: str, inputs: Object) -> Object:
    """The object as a dry run returns it; raises CannotPreviewError where the server cannot tell."""
    kind = kind_of(inputs)
    if types.is_patch(urn, kind.kind) or not session.cluster.serves(kind):
        raise CannotPreviewError
    try:
        return session.cluster.create(inputs, dry_run=True)
    except ApiError as error:
        # An existing object of that name is replaced before ours is made, or adopted by an alias.
        if error.already_exists:
            session.engine.status(urn, f"Retry #0; creation failed: {error}")
            raise CannotPreviewError from error
        if error.is_missing_namespace or error.is_forbidden or "does not support dry run" in str(error):
            raise CannotPreviewError from error
        raise


def create(session: Session, urn: str, inputs: Object, manager: str, requested_timeout: float) -> Object:
    """Create and wait until the object does what it is for; returns it as last seen.

    Raises:
        NotReadyError: it was created, but did not become ready.
        ApiError, NoSuchKindError, RemovedKindError, UnreachableError: it was not created.
        CancelledError: the user asked to stop.
    """
    awaiting.check_annotations(inputs)
    live = _retrying(session, urn, kind_of(inputs), lambda: _send(session, urn, inputs, manager))
    session.engine.status(urn, "")
    seconds = timeout_of(requested_timeout, inputs)
    live = awaiting.until_ready(session, urn, inputs, live, seconds)
    if is_crd(live):
        session.cluster.learn(live)
    return live


def _send(session: Session, urn: str, inputs: Object, manager: str) -> Object:
    kind = kind_of(inputs)
    if types.is_patch(urn, kind.kind):
        force = is_forced(inputs, None, preview=False)
        return session.cluster.apply(inputs, manager=manager, force=force)
    started = time.time()
    is_ambiguous = False
    while True:
        try:
            return session.cluster.create(inputs)
        except AmbiguousError:
            if is_ambiguous or session.cancelled.wait(_FIRST_PAUSE):
                raise
            is_ambiguous = True
        except ApiError as error:
            if not (error.already_exists and is_ambiguous):
                raise
            # The connection broke after our first request: what is there may well be ours.
            found = session.cluster.get(kind, namespace_of(inputs), name_of(inputs))
            # What consists of a name alone has no fields, so nobody owns any.
            may_be_ours = ownership.was_created_by_us(found) or not ownership.managed_fields(found)
            if not (may_be_ours and _is_newer(found, started)):
                raise
            return found


def _is_newer(obj: Object, moment: float) -> bool:
    from datetime import datetime

    created = datetime.fromisoformat(obj["metadata"]["creationTimestamp"])
    # The server's clock counts whole seconds and may differ from ours.
    return created.timestamp() >= moment - 5


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
                lifecycle.check_served(kind, session.cluster.release)
                session.cluster.forget()
        if session.cancelled.wait(pause):
            raise CancelledError
        pause *= _PAUSE_FACTOR
    raise AssertionError("unreachable: the last attempt returns or raises")
