"""A server between us and the API server that makes faults."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import io
import socket
import ssl
import struct
import threading
import urllib.error
import urllib.request
from typing import Any

import yaml

from standins.tests.apiserver import ApiServer
from standins.tests.samples import Object

LOGIN = b"<html><body>Log in to go on</body></html>"
REPLACED = ["truncated after", "login page after"]
"""Answers that only seem to be a success."""
NO_ANSWER_S = 60.0


class FlakyProxy:
    """Passes requests on to the API server, after as many faults as it is told to make.

    Parameters:
        faults: for each method, what to do with its next requests: an HTTP status, `drop` (break the connection
            before the server sees it), `lose` (break it after the server has answered) or `pass`.

    Attributes:
        slow: how a path ends -> seconds that its answers take.
        failing: how a path ends -> what becomes of the answers to its GETs: a status, or a fault of faulty.py that
            ends in "after", or one of REPLACED.
        no_answer_s: how long a connection stays open that gets no answer.
        authorization: the header of requests that have none: without TLS kubectl sends no credentials.
    """

    def __init__(self, server: ApiServer) -> None:
        self.faults: dict[str, list[int | str]] = {}
        self.requests: list[str] = []
        self.slow: dict[str, float] = {}
        self.failing: dict[str, int | str] = {}
        self.no_answer_s = NO_ANSWER_S
        self.authorization = ""
        self._closed = threading.Event()
        self._target = f"https://127.0.0.1:{server.port}"
        self._context = ssl._create_unverified_context()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                proxy.pass_on(self)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def pass_on(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.requests.append(handler.command)
        place = handler.path.partition("?")[0]
        self._closed.wait(sum(seconds for end, seconds in self.slow.items() if place.endswith(end)))
        faults = self.faults.get(handler.command) or []
        fault: int | str | None = faults.pop(0) if faults else None
        # A request may carry its own fault, as its path may: a status, or what becomes of its answer.
        asked = str(handler.headers.get("X-Fault", self._of_path(handler.command, place)))
        if asked.isdigit():
            fault = int(asked)
        if fault == "drop":
            handler.connection.shutdown(2)
            return
        if isinstance(fault, int):
            self._answer(handler, fault, b"{}", {"Retry-After": "1"} if fault == 429 else {})
            return
        headers = {
            key: value for key, value in handler.headers.items() if key.lower() not in ("host", "x-fault")
        }
        if self.authorization and "Authorization" not in handler.headers:
            headers["Authorization"] = self.authorization
        request = urllib.request.Request(
            self._target + handler.path, data=body or None, headers=headers, method=handler.command
        )
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=30) as answer:
                if "watch=true" in handler.path and not asked:
                    self._pump(handler, answer)
                    return
                status, content = answer.status, b"" if "watch=true" in handler.path else answer.read()
                headers = {"Content-Type": answer.headers["Content-Type"]}
        except urllib.error.HTTPError as error:
            status, content, headers = error.code, error.read(), {}
        if self._loses_answer(handler, asked, content):
            return
        if fault == "lose":
            handler.connection.shutdown(2)
            return
        self._answer(handler, status, content, headers)

    def _of_path(self, method: str, place: str) -> int | str:
        found = (fault for end, fault in self.failing.items() if place.endswith(end))
        return next(found, "") if method == "GET" else ""

    def _loses_answer(self, handler: http.server.BaseHTTPRequestHandler, fault: str, content: bytes) -> bool:
        """Whether the fault, one of those of faulty.py that end in "after" or of REPLACED, has replaced the answer."""
        what, _, when = fault.rpartition(" ")
        if when != "after":
            return False
        handler.close_connection = True
        if what.isdigit():
            self._answer(handler, int(what), b"{}", {})
        elif what == "no answer":
            self._closed.wait(self.no_answer_s)
        elif what == "truncated":
            self._answer(handler, 200, content[: len(content) // 2], {"Content-Length": str(len(content))})
        elif what == "login page":
            self._answer(handler, 200, LOGIN, {"Content-Type": "text/html"})
        else:
            if what == "reset":
                handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # The socket is open for as long as one of its files is.
            for end in (handler.rfile, handler.wfile, handler.connection):
                end.close()
            handler.wfile = io.BytesIO()  # which the handler still flushes
        return True

    @staticmethod
    def _pump(handler: http.server.BaseHTTPRequestHandler, answer: http.client.HTTPResponse) -> None:
        """Pass a watch on as it comes; either side may end it."""
        handler.close_connection = True
        handler.send_response(answer.status)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        with contextlib.suppress(OSError, http.client.HTTPException):
            while chunk := answer.read1(65536):
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            handler.wfile.write(b"0\r\n\r\n")

    @staticmethod
    def _answer(
        handler: http.server.BaseHTTPRequestHandler, status: int, content: bytes, headers: dict[str, str]
    ) -> None:
        handler.send_response(status)
        usual = {"Content-Type": "application/json", "Content-Length": str(len(content))}
        for key, value in {**usual, **headers}.items():
            handler.send_header(key, value)
        handler.end_headers()
        handler.wfile.write(content)

    def close(self) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()


def changed_config(server: ApiServer, **changes: Object) -> str:
    """The server's kubeconfig with other entries for its cluster or user."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    for inner, change in changes.items():
        entry = config[f"{inner}s"][0]
        entry[inner] = {**entry[inner], **change}
    return yaml.safe_dump(config)
