"""What somebody else does while a call waits, on a machine of any speed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import ApiError

from standins.tests.samples import MERGE_PATCH

HANG_S = 600.0


def as_soon_as_possible(
    act: Callable[[], object],
    *,
    pause: float = 0.2,
    passing: tuple[type[Exception], ...] = (ApiError,),
) -> None:
    """Call `act` again as long as it raises a `passing` error, with that error at last.

    The API server may refuse what it asks for because the object has not been made yet, or its kind is not served.
    """
    until = time.monotonic() + HANG_S
    while True:
        try:
            act()
            return
        except passing:
            if time.monotonic() > until:
                raise
        time.sleep(pause)


def meanwhile(act: Callable[[], object], *, after: float = 1.0) -> None:
    """Call `act` in a thread as soon as possible, at the earliest in `after` seconds; so long are its pauses, too.

    With shorter ones it could come before the wait has begun to look.
    """
    timer = threading.Timer(after, as_soon_as_possible, [act], {"pause": after})
    timer.daemon = True
    timer.start()


def merge(client: ApiClient, path: str, body: object, *, manager: str = "") -> None:
    """Merge `body` into the object at `path`, as a field manager of this name, else under the client's own."""
    query = {"fieldManager": manager} if manager else {}
    client.transport.request("PATCH", path, query=query, body=body, content_type=MERGE_PATCH)


def merge_meanwhile(client: ApiClient, path: str, body: object, *, after: float = 1.0) -> None:
    """Merge `body` into the object at `path` as soon as it is there, at the earliest in `after` seconds."""
    meanwhile(lambda: merge(client, path, body), after=after)
