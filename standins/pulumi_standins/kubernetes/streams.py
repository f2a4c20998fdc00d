"""The events of one watch, which another thread may end."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError


class Stream:
    """The events of a watch; the iteration ends when the server, a time-out or `close` ends the watch.

    Parameters:
        response: the open answer to the watch request.
        forget: called once the stream is closed.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse, forget: Callable[[Stream], None]) -> None:
        self._response = response
        self._forget = forget

    def __iter__(self) -> Iterator[dict[str, Any]]:
        pending = b""
        with suppress(HTTPError, OSError, ValueError, AttributeError):
            for chunk in self._response.stream(65536, decode_content=True):
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)

    def close(self) -> None:
        """End the stream from any thread: only shutting the socket wakes the thread that reads."""
        self._forget(self)
        connection = getattr(self._response, "connection", None)
        raw = getattr(connection, "sock", None)
        if raw is not None:
            with suppress(OSError):
                raw.shutdown(socket.SHUT_RDWR)
        with suppress(Exception):
            self._response.close()
