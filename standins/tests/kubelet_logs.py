"""Answers an API server that asks a played kubelet for the log of a container: there is not a line in it.

Without anybody to ask, the server answers 500 to whoever wants a log, as it does while a node is away.
"""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ADDRESS = "127.0.0.1"


class KubeletLogs:
    """Serves from `start` to `stop`.

    Parameters:
        certificates: the folder with `apiserver.crt` and `apiserver.key`; the server asks for none in particular.
    """

    def __init__(self, certificates: Path) -> None:
        self._server = ThreadingHTTPServer((ADDRESS, 0), _Empty)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def status(self) -> dict[str, Any]:
        """What a node's status says of it."""
        port = self._server.server_address[1]
        addresses = [{"type": "InternalIP", "address": ADDRESS}]
        return {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass
