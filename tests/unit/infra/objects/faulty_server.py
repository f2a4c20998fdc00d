"""An API server that holds one object of each name, and answers some questions as no server should."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from infra.objects import job_kinds
from infra.objects.cluster_api import JSON
from infra.objects.job_kinds import SHARED
from infra.objects.look import READY
from tests.unit.infra import samples

LOGIN = b"<html><body>Log in to go on</body></html>"
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
SERVED = (*SHARED, *job_kinds.GANG_KINDS)
"""Kinds that the server has a definition of."""
Fault = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def answer(self, status: int, content: bytes, kind: str = JSON, **headers: str) -> None:
        """Answer with `content`."""
        self.send_response(status)
        given = {"Content-Type": kind, "Content-Length": str(len(content)), **headers}
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def status(self, code: int) -> None:
        """Answer as the API does for an error."""
        self.answer(code, json.dumps({"kind": "Status", "code": code}).encode())

    def log_message(self, *said: object) -> None:
        """Say nothing."""


def _cut(handler: Handler) -> None:
    handler.answer(200, b'{"metadata": {"na')


def _broken_off(handler: Handler) -> None:
    handler.answer(200, b'{"items": [', **{"Content-Length": "9999"})
    handler.close_connection = True


def _reset(handler: Handler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    for end in (handler.rfile, handler.connection):
        end.close()
    handler.close_connection = True


def _silent(handler: Handler) -> None:
    served(handler).closed.wait(60)
    handler.close_connection = True


def _slow(handler: Handler) -> None:
    if not served(handler).closed.wait(served(handler).slow_s):
        served(handler).well(handler)


FAULTS: dict[str, Fault] = {
    "401": lambda handler: handler.status(401),
    "403": lambda handler: handler.status(403),
    "429": lambda handler: handler.status(429),
    "500": lambda handler: handler.status(500),
    "503": lambda handler: handler.status(503),
    "no answer": _silent,
    "reset": _reset,
    "slow answer": _slow,
    "cut off within": _cut,
    "broken off": _broken_off,
    "empty": lambda handler: handler.answer(200, b""),
    "login page": lambda handler: handler.answer(200, LOGIN, "text/html"),
    "login page as data": lambda handler: handler.answer(200, LOGIN),
    "way to a login page": lambda handler: handler.answer(302, b"", Location="/login"),
    "another's 404": lambda handler: handler.answer(404, b"404 page not found\n", "text/plain"),
}
"""What is no answer of an API server that works and lets this user look -> how it is given."""


class Server(ThreadingHTTPServer):
    """Attributes: `fault` of the paths in `at`, of all where that is None; `asked`, the methods and paths so far.

    Parameters:
        lists: path -> items.
        slow_s: seconds that a slow answer takes.
    """

    daemon_threads = True

    def __init__(self, slow_s: float) -> None:
        self.fault: Fault | None = None
        self.at: set[str] | None = None
        self.asked: list[str] = []
        self.slow_s, self.closed = slow_s, threading.Event()
        super().__init__(("127.0.0.1", 0), type("Asked", (Handler,), {"do_GET": _get}))

    def well(self, handler: Handler) -> None:
        """Answer as a server does that works."""
        place = handler.path.partition("?")[0]
        parts = place.strip("/").split("/")
        if place == READY:
            handler.answer(200, b"ok", "text/plain")
        elif place == "/login":
            handler.answer(200, LOGIN, "text/html")
        elif parts[0] == "apis" and len(parts) == 3:
            handler.answer(
                200, json.dumps({"resources": [{"name": each.plural} for each in SERVED]}).encode()
            )
        elif place in ("/api", "/apis"):
            groups = [{"versions": [{"groupVersion": each.api_version}]} for each in SERVED]
            handler.answer(200, json.dumps({"items": [], "groups": groups}).encode())
        elif _is_list(parts):
            handler.answer(200, b'{"items": []}')
        else:
            found = {"metadata": {"name": parts[-1], "uid": "uid"}, "spec": {}}
            handler.answer(200, json.dumps(found).encode())

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients go away."""


def _is_list(parts: list[str]) -> bool:
    """Whether a path is of a kind, and not of one object: /api/v1/pods, /apis/a/v1/namespaces/b/pods."""
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    return len(rest[2:] if rest[0] == "namespaces" and len(rest) > 2 else rest) == 1


def served(handler: Handler) -> Server:
    """The server of a request."""
    assert isinstance(handler.server, Server)
    return handler.server


def _get(handler: Handler) -> None:
    server, place = served(handler), handler.path.partition("?")[0]
    server.asked.append(f"{handler.command} {place}")
    is_hit = server.fault and (server.at is None or place in server.at)
    (server.fault if server.fault and is_hit else server.well)(handler)


@contextmanager
def serving(slow_s: float = 5.0) -> Iterator[Server]:
    """A server inside."""
    with Server(slow_s) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.closed.set()
            server.shutdown()


def kubeconfig(server: Server, folder: Path) -> Path:
    """A file that names the server."""
    file = folder / "kubeconfig.yaml"
    url = f"http://127.0.0.1:{server.server_address[1]}"
    file.write_text(json.dumps(samples.kubeconfig(url, user={"token": "secret"})))
    return file
