"""What somebody else does while a call waits, on a machine of any speed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pulumi_standins.kubernetes.api_client import MERGE_PATCH, ApiClient
from pulumi_standins.kubernetes.errors import ApiError

HANG_S = 600.0


def meanwhile(act: Callable[[], object], *, after: float = 1.0) -> None:
    """Call `act` in a thread in `after` seconds, and again as long as the API server refuses what it asks for.

    It may refuse because the object that `act` is about has not been made yet, or its kind is not served yet.
    """

    def repeat() -> None:
        until = time.monotonic() + HANG_S
        while time.monotonic() < until:
            time.sleep(after)
            try:
                act()
            except ApiError:
                continue
            return

    threading.Thread(target=repeat, daemon=True).start()


def merge_meanwhile(client: ApiClient, path: str, body: object, *, after: float = 1.0) -> None:
    """Merge `body` into the object at `path` as soon as it is there, at the earliest in `after` seconds."""
    meanwhile(
        lambda: client.transport.request("PATCH", path, body=body, content_type=MERGE_PATCH), after=after
    )
