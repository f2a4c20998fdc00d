"""Follow one object or a collection through a watch that survives breaks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import ApiError, CancelledError
from pulumi_standins.kubernetes.objects import Kind, nested
from pulumi_standins.kubernetes.streams import Stream
from pulumi_standins.kubernetes.values import Object

# Servers close watches after some minutes anyway; ours are renewed before.
_LONGEST_WATCH = 240.0
# Between watches: more after each one that ends early and without an event.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0

Event = tuple[str, Object]
"""Its type, ADDED, MODIFIED or DELETED, and the object."""


def follow(
    client: ApiClient,
    kind: Kind,
    namespace: str,
    *,
    until: float,
    cancelled: threading.Event,
    name: str = "",
    since: str = "",
    fields: str = "",
    on_stream: Callable[[Stream], None] | None = None,
) -> Iterator[Event]:
    """Yield what happens to the selected objects until the deadline.

    Parameters:
        until: a point of `time.monotonic`.
        name: only this object; where it is missing from the start, it is yielded as DELETED, empty.
        since: the resource version to start after; without one, all objects are yielded as ADDED first.
        fields: a field selector, for a part of the collection.
        on_stream: told of each watch opened, for who wants to close it from outside.

    Raises:
        CancelledError: the user asked to stop.
        ApiError: the server does not let us look.
        UnreachableError: the server has been away for longer than our patience.
    """
    version = since
    fields = f"metadata.name={name}" if name else fields
    selection = {"fieldSelector": fields} if fields else {}
    pause = _FIRST_PAUSE
    while (remaining := until - time.monotonic()) > 0:
        if cancelled.is_set():
            raise CancelledError
        began, stream, is_idle = time.monotonic(), None, True
        try:
            if not version:
                listing = client.list(kind, namespace, **selection)
                items = listing.get("items") or []
                if name and not items:
                    yield "DELETED", {}
                for item in items:
                    yield "ADDED", {"apiVersion": kind.api_version, "kind": kind.kind, **item}
                version = nested(listing, "metadata", "resourceVersion", default="")
            stream = client.watch(
                kind,
                namespace,
                seconds=min(remaining, _LONGEST_WATCH),
                resourceVersion=version,
                allowWatchBookmarks="true",
                **selection,
            )
            if on_stream is not None:
                on_stream(stream)
            for event in stream:
                obj = event.get("object") or {}
                if event.get("type") == "ERROR":
                    # Mostly 410: our version is too old. Starting over finds out about everything else.
                    version = ""
                    break
                is_idle = False
                version = nested(obj, "metadata", "resourceVersion", default=version)
                if event.get("type") != "BOOKMARK":
                    yield event["type"], obj
        except ApiError as error:
            if error.code != 410:
                raise
            version = ""
        finally:
            if stream is not None:
                stream.close()
        # A server or proxy that ends every watch at once must not be asked without end.
        is_early = time.monotonic() - began < _LONGEST_PAUSE
        pause = min(pause * 2, _LONGEST_PAUSE) if is_idle and is_early else _FIRST_PAUSE
        cancelled.wait(min(pause, max(0.0, until - time.monotonic())))
