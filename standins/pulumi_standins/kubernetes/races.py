"""Writing to an object at its latest version, while controllers also write to it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import ApiError
from pulumi_standins.kubernetes.objects import kind_of, name_of, namespace_of, nested
from pulumi_standins.kubernetes.patience import pause_before
from pulumi_standins.kubernetes.values import Object

# A new Deployment or Job gets a new status several times a second; on a busy machine, less often.
_SECONDS = 60.0


def write_to_latest(client: ApiClient, live: Object, write: Callable[[Object], Object]) -> Object:
    """Repeat read and write until nobody else writes in between, and return the result of `write`.

    Parameters:
        live: the object as it was read.
        write: one write; the server refuses it if the object no longer has the given version.

    Raises:
        ApiError: the server refused for another reason than others' writes, or these have not stopped for a minute.
        CancelledError: the user asked to stop.
    """
    until = time.monotonic() + _SECONDS
    for attempt in itertools.count():
        try:
            return write(live)
        except ApiError as error:
            if not error.is_lost_race:
                raise
            client.transport.patience.pause(pause_before(attempt))
            latest = client.get(kind_of(live), namespace_of(live), name_of(live))
            # If the refused version is still the latest, other writers are not the cause.
            if _version(latest) == _version(live) or time.monotonic() > until:
                raise
        live = latest
    raise AssertionError("unreachable: the loop ends with an answer or an error")


def _version(obj: Object) -> object:
    return nested(obj, "metadata", "resourceVersion")
