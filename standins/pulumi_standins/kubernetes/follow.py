"""Follow one object or a collection through a watch that survives broken connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import ApiError, CancelledError
from pulumi_standins.kubernetes.objects import Kind, nested
from pulumi_standins.kubernetes.streams import Stream
from pulumi_standins.kubernetes.values import Object

# Servers close watches after some minutes; we renew ours earlier.
_LONGEST_WATCH = 240.0
# Between watches: longer after each watch that ends early without an event.
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
    """Yield the events of the selected objects until the deadline.

    Parameters:
        until: a point of `time.monotonic`.
        name: only this object; if it is missing from the start, an empty DELETED event is yielded.
        since: the resource version to start after; without one, all objects are yielded as ADDED first.
        fields: a field selector, for a part of the collection.
        on_stream: called with each opened watch, so that others can close it.

    Raises:
        CancelledError: the user asked to stop.
        ApiError: the server refuses the watch.
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
                    # Mostly 410: our version is too old. A new start finds every other cause.
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
        # If a server or proxy ends every watch at once, do not ask again without a pause.
        is_early = time.monotonic() - began < _LONGEST_PAUSE
        pause = min(pause * 2, _LONGEST_PAUSE) if is_idle and is_early else _FIRST_PAUSE
        cancelled.wait(min(pause, max(0.0, until - time.monotonic())))
