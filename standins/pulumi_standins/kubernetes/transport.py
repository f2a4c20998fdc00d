"""HTTP to one API server: JSON in and out, retries where they are safe, streams that can be broken off."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError, MaxRetryError, NewConnectionError, ProtocolError

from pulumi_standins.kubernetes.connection import Connection
from pulumi_standins.kubernetes.errors import ApiError, CancelledError, UnreachableError

# Too many requests, and the answers of a server or load balancer that is restarting.
_PASSING = {429, 502, 503, 504}
_ATTEMPTS = 6
_LONGEST_PAUSE = 10.0
_CONNECT_SECONDS = 10.0
_READ_SECONDS = 60.0


class AmbiguousError(UnreachableError):
    """The connection broke after the request was sent: the server may have done what was asked."""


class Transport:
    """Requests against one API server.

    Parameters:
        connection: where, and who we are.
        cancelled: set when the user asks to stop; pauses end at once.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, connection: Connection, cancelled: threading.Event, timeout: float | None) -> None:
        self._connection = connection
        self._cancelled = cancelled
        self._timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=timeout or _READ_SECONDS)
        self._streams: set[Stream] = set()
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        attempts: int = _ATTEMPTS,
    ) -> Any:
        """Send one request and return the decoded answer.

        A connection that breaks is tried again for everything but POST, where the answer decides what happened.

        Raises:
            ApiError: the server refused.
            AmbiguousError: a POST whose outcome is unknown.
            UnreachableError: no answer after all attempts.
            CancelledError: the user asked to stop.
        """
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(1, attempts + 1):
            try:
                response = self._send(method, path, query, data, content_type)
            except HTTPError as error:
                sent = not isinstance(_cause(error), NewConnectionError)
                if method == "POST" and sent:
                    raise AmbiguousError(str(_cause(error))) from error
                if attempt == attempts or _is_final(error):
                    raise UnreachableError(str(_cause(error))) from error
                self._pause(attempt, None)
                continue
            if response.status in _PASSING and attempt < attempts:
                self._pause(attempt, response.headers.get("Retry-After"))
                continue
            answer = _decoded(response.data)
            if response.status >= 400:
                raise ApiError(response.status, answer)
            return answer
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _send(
        self, method: str, path: str, query: Mapping[str, str] | None, data: bytes | None, content_type: str
    ) -> urllib3.BaseHTTPResponse:
        headers = self._connection.headers()
        if data is not None:
            headers["Content-Type"] = content_type
        return self._connection.pool.request(
            method, self._url(path, query), body=data, headers=headers, timeout=self._timeout, retries=False
        )

    def _url(self, path: str, query: Mapping[str, str] | None) -> str:
        return f"{self._connection.server}{path}" + (f"?{urlencode(query)}" if query else "")

    def _pause(self, attempt: int, retry_after: str | None) -> None:
        seconds = min(0.25 * 2**attempt, _LONGEST_PAUSE) * random.uniform(0.75, 1.25)
        if retry_after and retry_after.isdigit():
            seconds = max(float(retry_after), seconds)
        if self._cancelled.wait(seconds):
            raise CancelledError

    def stream(self, path: str, query: Mapping[str, str], *, seconds: float) -> Stream:
        """Open a watch; it ends by itself after so many seconds at the latest."""
        response = self._connection.pool.request(
            "GET",
            self._url(path, query),
            headers=self._connection.headers(),
            timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=seconds),
            preload_content=False,
            retries=False,
        )
        if response.status >= 400:
            raise ApiError(response.status, _decoded(response.data))
        stream = Stream(response, self._forget)
        with self._lock:
            self._streams.add(stream)
        if self._cancelled.is_set():
            stream.close()
        return stream

    def _forget(self, stream: Stream) -> None:
        with self._lock:
            self._streams.discard(stream)

    def break_off(self) -> None:
        """End all streams at once."""
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.close()


class Stream:
    """The events of a watch; iterating ends when the server, a time-out or `close` ends it."""

    def __init__(self, response: urllib3.BaseHTTPResponse, forget: Any) -> None:
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


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data) if data else {}
    except ValueError:
        return data.decode(errors="replace")


def _cause(error: BaseException) -> BaseException:
    return error.reason if isinstance(error, MaxRetryError) and error.reason else error


def _is_final(error: HTTPError) -> bool:
    """A refused connection or a bad certificate does not mend itself within seconds."""
    cause = _cause(error)
    return not isinstance(cause, ProtocolError | urllib3.exceptions.TimeoutError) or isinstance(
        cause, NewConnectionError | urllib3.exceptions.ConnectTimeoutError
    )


def deadline(seconds: float) -> float:
    """A point in time for `time.monotonic`."""
    return time.monotonic() + seconds
