"""Create an object exactly once, also if the answer to the request is lost.

A POST must not simply be sent again: the server may have created the object. Then it refuses the second request with
409 AlreadyExists, the same as for somebody else's object. So after every unclear outcome we read the object. An
existing object counts as ours only if it has everything that we sent.
"""

from __future__ import annotations

import itertools
import time
from datetime import datetime
from typing import Any

from pulumi_standins.kubernetes import field_managers
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import (
    AmbiguousError,
    ApiError,
    CancelledError,
    UnconfirmedError,
    UnreachableError,
)
from pulumi_standins.kubernetes.objects import kind_of, name_of, namespace_of, nested
from pulumi_standins.kubernetes.patience import pause_before
from pulumi_standins.kubernetes.session import Session
from pulumi_standins.kubernetes.state import State
from pulumi_standins.kubernetes.transport import ATTEMPTS
from pulumi_standins.kubernetes.values import Object

# Creation times have whole seconds, and the clocks of a cluster's servers may differ by a second.
_CLOCKS_DIFFER_SECONDS = 5.0
_UNCLEAR_ATTEMPTS = 3


def post(session: Session, sent: Object) -> Object:
    """Create the object and return the server's version of it.

    Raises:
        ApiError: it was not created; `already_exists` if another object has its name.
        UnconfirmedError: it was sent, and then the server was away, or the user asked to stop.
        UnreachableError: it was not sent.
    """
    client, patience = session.client, session.client.transport.patience
    started = client.transport.server_time()
    unclear_since: float | None = None
    for attempt in itertools.count(1):
        try:
            return client.create(sent)
        except AmbiguousError as error:
            found = _look(client, sent, error)
            if found is not None and is_ours(found, sent, since=started):
                return found
            unclear_since = unclear_since or time.monotonic()
            if _is_over(error, attempt, time.monotonic() - unclear_since, patience.seconds):
                # The last read has shown that it does not exist.
                raise error.refusal or UnreachableError(str(error)) from error
            try:
                patience.pause(pause_before(attempt))
            except CancelledError as stop:
                raise UnconfirmedError(str(stop), sent) from stop
        except ApiError as error:
            if error.already_exists and unclear_since is not None:
                found = _look(client, sent, error)
                if found is not None and is_ours(found, sent, since=started):
                    return found
            raise
        except (UnreachableError, CancelledError) as error:
            if unclear_since is None:
                raise
            raise UnconfirmedError(str(error), sent) from error
    raise AssertionError("unreachable: the loop ends with an object or an error")


def _is_over(error: AmbiguousError, attempt: int, seconds: float, patience: float) -> bool:
    """Whether to stop after this many attempts and seconds without a clear outcome."""
    if error.refusal is not None and error.refusal.code == 500:
        return attempt >= ATTEMPTS
    return seconds >= patience and attempt >= _UNCLEAR_ATTEMPTS


def _look(client: ApiClient, sent: Object, error: Exception) -> Object | None:
    """The object of this name, if it exists."""
    try:
        return client.get(kind_of(sent), namespace_of(sent), name_of(sent))
    except (UnreachableError, CancelledError) as second:
        raise UnconfirmedError(f"{error}; then {second}", sent) from second
    except ApiError as refusal:
        if refusal.is_missing:
            return None
        raise UnconfirmedError(f"{error}; then {refusal}", sent) from refusal


def confirm(session: Session, state: State) -> Object | None:
    """The live object of an unconfirmed creation; None if it is missing or somebody else created it."""
    found = session.client.find(kind_of(state.live), namespace_of(state.live), name_of(state.live))
    return found if found is not None and is_ours(found, state.inputs) else None


def is_ours(found: Object, sent: Object, *, since: float | None = None) -> bool:
    """Whether an existing object is the one that we sent.

    Parameters:
        since: seconds since 1970 by the server's clock; an older object is not ours. None for any age.
    """
    # An object with only a name has no fields, and so no field owners.
    is_by_us = field_managers.was_created_by_us(found) or not field_managers.managed_fields(found)
    created = datetime.fromisoformat(found["metadata"]["creationTimestamp"]).timestamp()
    is_new = since is None or created >= since - _CLOCKS_DIFFER_SECONDS
    is_going = bool(nested(found, "metadata", "deletionTimestamp"))
    return is_by_us and is_new and not is_going and carries(found, sent)


def carries(live: Any, sent: Any) -> bool:
    """Whether a live value has everything that was sent; servers add fields and remove empty ones."""
    if isinstance(sent, dict):
        return isinstance(live, dict) and all(
            _is_empty(value) if key not in live else carries(live[key], value) for key, value in sent.items()
        )
    if isinstance(sent, list):
        # Admission may add elements at any place.
        return isinstance(live, list) and all(any(carries(item, value) for item in live) for value in sent)
    return bool(live == sent)


def _is_empty(value: Any) -> bool:
    """Whether a server drops a value: an empty one, or maps with only such values."""
    if isinstance(value, dict):
        return all(_is_empty(item) for item in value.values())
    return value in (None, "", 0, False) or value == []
