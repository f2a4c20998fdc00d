"""Serve a plugin as the engine expects: on a loopback port, printed in the first line of stdout."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from pulumi_standins.startup import settle, without_asyncio_grpc

without_asyncio_grpc()

import grpc  # noqa: E402
from google._upb._message import SetAllowOversizeProtos  # type: ignore[import-untyped]  # noqa: E402

# A single message may have the checkpoint of a large stack; the engine itself uses this limit.
MESSAGE_BYTES = 400 * 1024 * 1024
CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
]

# Otherwise protobuf refuses messages nested deeper than 100; a custom resource's schema may be deeper.
SetAllowOversizeProtos(True)


class Servicer(Protocol):
    """One of the engine's services; `stop` ends its running work."""

    def stop(self) -> None: ...


def engine_address(arguments: list[str]) -> str:
    """The engine's address is the last positional argument; flags such as --tracing may precede it."""
    positional = [argument for argument in arguments if not argument.startswith("-")]
    return positional[-1] if positional else ""


def serve(
    make: Callable[[str], Servicer], register: Callable[[Any, grpc.Server], None], threads: int
) -> None:
    """Serve until a signal, or until the engine that started us is gone.

    Parameters:
        make: makes the servicer from the engine's address.
        register: the generated function that adds the servicer to a server.
        threads: the most calls at once; each waiting resource needs a thread, and threads start only when needed.
    """
    servicer = make(engine_address(sys.argv[1:]))
    server = grpc.server(ThreadPoolExecutor(max_workers=threads), options=CHANNEL_OPTIONS)
    register(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    parent = os.getppid()
    settle()
    print(port, flush=True)
    while not stopped.wait(2):
        if os.getppid() != parent:
            break
    servicer.stop()
    server.stop(grace=1).wait()
    sys.stdout.flush()
    # A thread may still hang in a system call to an unreachable host; no work is left.
    os._exit(0)
