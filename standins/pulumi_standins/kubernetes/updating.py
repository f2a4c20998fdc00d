"""Change an object in place, or preview the change by a dry run."""

from __future__ import annotations

import copy

from pulumi_standins.kubernetes import awaiting, creation, field_managers, posting, type_tokens
from pulumi_standins.kubernetes.objects import assign, is_crd, kind_of, name_of, namespace_of, nested
from pulumi_standins.kubernetes.races import write_to_latest
from pulumi_standins.kubernetes.session import Session, timeout_of
from pulumi_standins.kubernetes.state import State
from pulumi_standins.kubernetes.values import Object


def update(
    session: Session,
    urn: str,
    old: State,
    inputs: Object,
    *,
    manager: str,
    ignored: list[str],
    requested_timeout: float,
    preview: bool,
) -> Object:
    """Change the object and wait until it is ready again; returns it as last seen.

    A missing object whose creation was never confirmed is created now.

    Parameters:
        manager: our field manager's name.
        ignored: paths of fields whose changes are left out.
        requested_timeout: seconds for the wait; 0 for the annotation's or the kind's default.
        preview: whether this is a dry run.

    Raises:
        FieldConflictError: another manager owns a field.
        NotReadyError: it was changed, but did not become ready.
        ApiError, NoSuchKindError, UnreachableError: it was not changed.
    """
    awaiting.check_annotations(inputs)
    inputs = copy.deepcopy(inputs)
    if old.is_unconfirmed and posting.confirm(session, old) is None:
        return creation.create(session, urn, inputs, manager, requested_timeout)
    kind = kind_of(inputs)
    live = session.client.get(kind, namespace_of(old.live), name_of(old.live))
    changed = _send(session, urn, live, old, inputs, manager=manager, ignored=ignored, preview=preview)
    if preview:
        return changed
    seconds = timeout_of(requested_timeout, inputs)
    changed = awaiting.until_ready(session, urn, inputs, changed, seconds)
    if is_crd(changed):
        session.client.add_kinds_of(changed)
    return changed


def _send(
    session: Session,
    urn: str,
    live: Object,
    old: State,
    inputs: Object,
    *,
    manager: str,
    ignored: list[str],
    preview: bool,
) -> Object:
    if is_crd(inputs):
        return _replace(session, live, inputs, manager=manager, preview=preview)
    if not preview and not type_tokens.is_patch(urn, kind_of(inputs).kind):
        live = field_managers.take_over(session.client, live, manager)
    field_managers.keep_ignored(inputs, live, manager, ignored)
    force = creation.is_forced(session, inputs, live, preview=preview)
    applied = write_to_latest(
        session.client,
        live,
        lambda _: creation.apply(session, inputs, manager, force=force, preview=preview),
    )
    if preview and field_managers.was_created_by_us(live):
        # The update itself takes over our create's fields, so that it can remove fields; a dry run cannot do that.
        _drop(applied, old.inputs, inputs)
    return applied


def _replace(session: Session, live: Object, inputs: Object, *, manager: str, preview: bool) -> Object:
    """PUT a CRD: an apply would merge versions and schemas with old ones by position."""

    def put(latest: Object) -> Object:
        assign(inputs, nested(latest, "metadata", "resourceVersion"), "metadata", "resourceVersion")
        return session.client.replace(inputs, manager=manager, dry_run=preview)

    return write_to_latest(session.client, live, put)


def _drop(obj: Object, old: Object, new: Object) -> None:
    """Remove the fields that the old inputs have and the new ones lack."""
    for key, before in old.items():
        if key not in obj:
            continue
        if key not in new and not (isinstance(before, dict) and isinstance(obj[key], dict)):
            del obj[key]
        elif isinstance(before, dict) and isinstance(obj[key], dict):
            _drop(obj[key], before, new.get(key) or {})
            if not obj[key] and key not in new:
                del obj[key]
