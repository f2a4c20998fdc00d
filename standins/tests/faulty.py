"""Every way in which a request can fail, on the way between a provider and the API server."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Any

from standins.tests.apiserver import free_ports
from standins.tests.driver import Driver
from standins.tests.flaky import FlakyProxy

RESET_ON_CLOSE = struct.pack("ii", 1, 0)

BEFORE = ["refused", "reset before", "end before", "broken TLS", "no answer before"]
"""The server does not get the request: a server of ours takes its place, or none."""
PASSED_ON = ["reset after", "end after", "no answer after"]
"""The server does what is asked, and its answer is lost."""
STATUSES = ["429", "500", "502", "503", "504"]
"""A proxy answers in place of the server."""
LATE_STATUSES = ["500 after", "502 after", "503 after", "504 after"]
"""A proxy answers although the server does what is asked."""
FAULTS = [*BEFORE, *PASSED_ON, *STATUSES, *LATE_STATUSES]


class BadServer:
    """Takes connections and treats each one in the same way, which is one of BEFORE."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._kept: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        scheme = "https" if fault == "broken TLS" else "http"
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._treat(connection)

    def _treat(self, connection: socket.socket) -> None:
        if self._fault == "no answer before":
            self._kept.append(connection)
            return
        if self._fault == "reset before":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        elif self._fault == "broken TLS":
            connection.recv(65536)
            connection.sendall(b"this is no TLS record\n")
        connection.close()

    def close(self) -> None:
        """Listen no longer, and end what was kept."""
        self._listener.close()
        for connection in self._kept:
            connection.close()


class Route:
    """The way of one provider's requests, with faults on it.

    Parameters:
        driver: a provider behind the proxy.

    Attributes:
        faults: for each verb, faults of its next requests; watches count as the verb WATCH.
        taken: the faults that have been made.
    """

    def __init__(self, driver: Driver, proxy: FlakyProxy) -> None:
        self.faults: dict[str, list[str]] = {}
        self.taken: list[str] = []
        self._proxy = proxy
        self._bad: list[BadServer] = []
        self._lock = threading.Lock()
        assert driver.provider._client is not None
        connection = driver.provider._client.transport._connection
        self._pool, self._server = connection.pool, connection.server
        connection.pool = self  # type: ignore[assignment]

    def request(self, method: str, url: str, **options: Any) -> Any:
        """In place of the pool's method of that name."""
        verb = "WATCH" if "watch=true" in url else method
        with self._lock:
            waiting = self.faults.get(verb) or []
            fault = waiting.pop(0) if waiting else "pass"
            if fault != "pass":
                self.taken.append(fault)
        if fault in BEFORE:
            url = url.replace(self._server, self._instead(fault))
        elif fault != "pass":
            options["headers"] = {**options["headers"], "X-Fault": fault}
        return self._pool.request(method, url, **options)

    def _instead(self, fault: str) -> str:
        if fault == "refused":
            (port,) = free_ports(1)
            return f"http://127.0.0.1:{port}"
        bad = BadServer(fault)
        self._bad.append(bad)
        return bad.url

    def close(self) -> None:
        """End the servers of ours."""
        for bad in self._bad:
            bad.close()
