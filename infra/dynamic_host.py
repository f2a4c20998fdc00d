"""How many calls the process that hosts our dynamic providers handles at once.

Pulumi's host (3.246) handles four, whatever PULUMI_PARALLEL says, and has no setting for it: four jobs that train, or
wait in a queue, would hold up every other job, and the models of jobs that have ended.
Source: `main` of pulumi/dynamic/__main__.py; gRPC looks for `experimental_thread_pool` at each call (grpc/_server.py).
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

HOST = "pulumi.dynamic.__main__"
LONG = ("Create", "Update", "Read", "Delete")
"""Methods that may wait for a cluster. All others run in the host's own threads."""
CALLS = 1000
"""More than Pulumi does at once. A thread starts only when all others are busy."""


def raise_limit() -> None:
    """Where this process hosts dynamic providers, let it handle CALLS long calls at once."""
    host = sys.modules["__main__"]
    if getattr(host.__spec__, "name", "") != HOST:
        return
    handlers = [getattr(host.DynamicResourceProviderServicer, name) for name in LONG]
    if not hasattr(handlers[0], "experimental_thread_pool"):
        pool = ThreadPoolExecutor(CALLS)
        for handler in handlers:
            handler.experimental_thread_pool = pool
