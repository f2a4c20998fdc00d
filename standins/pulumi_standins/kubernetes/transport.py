"""HTTP to one API server: JSON in and out, waits for an unreachable server, streams that can be ended."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError

from pulumi_standins.kubernetes import failures
from pulumi_standins.kubernetes.connection import Connection
from pulumi_standins.kubernetes.errors import AmbiguousError, ApiError, UnreachableError
from pulumi_standins.kubernetes.failures import Cause, Failure, Outcome
from pulumi_standins.kubernetes.patience import Patience, pause_before
from pulumi_standins.kubernetes.streams import Stream
from pulumi_standins.kubernetes.values import Object

_CONNECT_SECONDS = 10.0
_READ_SECONDS = 60.0
# Servers send a bookmark every minute to watches that ask for it: after a longer silence the connection is dead.
_LONGEST_SILENCE = 90.0
# Attempts for a failure behind the server, such as a webhook without a pod: about 10 seconds.
ATTEMPTS = 6
_HURRIED_ATTEMPTS = 2
_FORBIDDEN = 403

Query = Mapping[str, str]


class Transport:
    """Requests against one API server.

    Parameters:
        connection: address and login.
        patience: how long to wait for an unreachable server.
        cancelled: set when the user asks to stop.
        timeout: seconds to wait for an answer; None for the default of 60.
    """

    def __init__(
        self, connection: Connection, patience: Patience, cancelled: threading.Event, timeout: float | None
    ) -> None:
        self._connection = connection
        self.patience = patience
        self._cancelled = cancelled
        self._timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=timeout or _READ_SECONDS)
        self._streams: set[Stream] = set()
        self._lock = threading.Lock()
        self._clock_ahead: float | None = None

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = "application/json",
        hurried: bool = False,
        wanted: str = "kind",
    ) -> Object:
        """Send one request, repeated while the server is away or busy, and return the decoded answer.

        Parameters:
            hurried: try twice and do not wait for an unreachable server.
            wanted: the field that distinguishes an API server's answer from a proxy's page.

        Raises:
            ApiError: the server refused.
            AmbiguousError: a POST may have been done; other requests may be done twice without harm.
            UnreachableError: the server has been away for longer than our patience, or something else answers.
            CancelledError: the user asked to stop.
        """
        may_repeat = method != "POST" or "dryRun" in (query or {})
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": content_type}
        sent: dict[str, Any] = {"body": data, "timeout": self._timeout}
        response = self._answer(
            lambda: self._send(method, self._url(path, query), headers, sent),
            may_repeat=may_repeat,
            hurried=hurried,
        )
        answer = _decoded(response.data)
        if isinstance(answer, dict) and wanted in answer:
            return answer
        found = f"{failures.NO_API_SERVER} {str(answer)[:100]!r}, {failures.LOG_IN}"
        # The API server may have done the request, and a proxy replaced the answer by a page.
        raise UnreachableError(found) if may_repeat else AmbiguousError(found)

    def stream(self, path: str, query: Query, *, seconds: float) -> Stream:
        """Open a watch, with the same patience as `request`; the watch ends after `seconds` at the latest.

        Raises:
            ApiError: the server refused.
            UnreachableError: the server has been away for longer than our patience, or something else answers.
            CancelledError: the user asked to stop.
        """
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=min(seconds, _LONGEST_SILENCE))
        sent: dict[str, Any] = {"timeout": timeout, "preload_content": False}
        response = self._answer(
            lambda: self._send("GET", self._url(path, query), {}, sent), may_repeat=True, hurried=False
        )
        stream = Stream(response, self._forget)
        with self._lock:
            self._streams.add(stream)
        if self._cancelled.is_set():
            stream.close()
        return stream

    def _answer(
        self, send: Callable[[], urllib3.BaseHTTPResponse], *, may_repeat: bool, hurried: bool
    ) -> urllib3.BaseHTTPResponse:
        """The first answer that is no temporary failure; raises like `request`."""
        failing_since: float | None = None
        was_refused = False
        for attempt in itertools.count(1):
            try:
                response = send()
                failure = self._judged(response)
                if failure is None:
                    if response.status == _FORBIDDEN and not was_refused:
                        was_refused = True  # meanwhile the server may have read its roles
                        continue
                    if response.status >= 400:
                        raise ApiError(response.status, _decoded(response.data))
                    return response
            except HTTPError as error:
                failure = failures.of_error(error)
            if failure.outcome is Outcome.UNKNOWN and not may_repeat:
                raise AmbiguousError(failure.reason, failure.refusal)
            failing_since = failing_since or time.monotonic()
            if not self._may_go_on(failure, attempt, failing_since, hurried=hurried):
                raise failure.refusal or UnreachableError(failure.reason)
        raise AssertionError("unreachable: the loop ends with an answer or an error")

    def _send(
        self, method: str, url: str, headers: dict[str, str], options: dict[str, Any]
    ) -> urllib3.BaseHTTPResponse:
        every = {**self._connection.headers(), **headers}
        return self._connection.pool.request(method, url, headers=every, retries=False, **options)

    def _may_go_on(self, failure: Failure, attempt: int, failing_since: float, *, hurried: bool) -> bool:
        """Pause before the next attempt, as the failure asks; false if another attempt makes no sense."""
        # Time counts for each request, too: a server that answers other requests may never answer this one.
        left = failing_since + self.patience.seconds - time.monotonic()
        if hurried:
            is_over = attempt >= _HURRIED_ATTEMPTS
        else:
            is_over = attempt >= ATTEMPTS if failure.cause is Cause.ERROR else left <= 0
        if is_over or failure.outcome is Outcome.HOPELESS:
            return False
        if failure.cause is Cause.AWAY and not hurried:
            return self.patience.wait_until_back(attempt, failure.reason)
        # Some servers ask for hours.
        self.patience.pause(max(min(failure.retry_after, left), pause_before(attempt)))
        return True

    def _judged(self, response: urllib3.BaseHTTPResponse) -> Failure | None:
        """The failure that an answer means, if any; an answer shows that the server is reachable."""
        failure = None
        if response.status >= 300:
            retry_after = response.headers.get("Retry-After")
            is_starting = response.status == _FORBIDDEN and self._is_starting()
            failure = failures.of_answer(response.status, _decoded(response.data), retry_after, is_starting)
        if failure is None or failure.cause is not Cause.AWAY:
            self.patience.answered()
        date = response.headers.get("Date", "")
        with suppress(ValueError):  # a proxy may write something else than a date
            self._clock_ahead = parsedate_to_datetime(date).timestamp() - time.monotonic()
        return failure

    def _is_starting(self) -> bool:
        """Whether the server still refuses all users, because it has not read its roles yet.

        A role of Kubernetes itself lets every user read /version.
        """
        try:
            answer = self._send("GET", self._url("/version", None), {}, {"timeout": self._timeout})
        except HTTPError:
            return True
        return answer.status == _FORBIDDEN

    def server_time(self) -> float:
        """Seconds since 1970 by the server's clock, which may differ from ours; the result is at most a second late."""
        return time.time() if self._clock_ahead is None else time.monotonic() + self._clock_ahead

    def _url(self, path: str, query: Query | None) -> str:
        return f"{self._connection.server}{path}" + (f"?{urlencode(query)}" if query else "")

    def _forget(self, stream: Stream) -> None:
        with self._lock:
            self._streams.discard(stream)

    def break_off(self) -> None:
        """End all streams at once."""
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.close()


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data) if data else {}
    except ValueError:
        return data.decode(errors="replace")
