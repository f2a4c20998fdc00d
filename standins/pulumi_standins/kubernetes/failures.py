"""How a request can fail before the API server decides on it, and whether the server may have done it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from enum import StrEnum

from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationValueError,
    MaxRetryError,
    NewConnectionError,
    ProxyError,
    SSLError,
)

from pulumi_standins.kubernetes.errors import ApiError


class Outcome(StrEnum):
    """What a failure says about the request."""

    NOT_DONE = "not done"
    """The server never got it, or refused to start it: every request may be sent again."""
    UNKNOWN = "unknown"
    """The server may have done it: only a request that may happen twice may be sent again without a check."""
    HOPELESS = "hopeless"
    """It fails in the same way each time."""


class Cause(StrEnum):
    """Which side must recover before the request can succeed; decides how long to wait."""

    AWAY = "away"
    """The server: it restarts, or the connection is broken."""
    BUSY = "busy"
    """The server, which answers and asks us to wait."""
    ERROR = "error"
    """Something behind the server: its store, a webhook."""


@dataclass(frozen=True)
class Failure:
    """One failed attempt.

    Parameters:
        reason: for the user.
        refusal: the server's own words, if it answered.
        retry_after: seconds that the server asks for, or 0.
    """

    outcome: Outcome
    cause: Cause
    reason: str
    refusal: ApiError | None = None
    retry_after: float = 0.0


NO_API_SERVER = "a server that is no Kubernetes API server answers"
LOG_IN = "probably a proxy that asks for a login: log in to that proxy, or correct `server` in the kubeconfig"

# Temporary statuses. A proxy answers 502, 503 and 504 for a server that may have got the request.
_PASSING = {
    429: (Outcome.NOT_DONE, Cause.BUSY),
    500: (Outcome.UNKNOWN, Cause.ERROR),
    502: (Outcome.UNKNOWN, Cause.AWAY),
    503: (Outcome.UNKNOWN, Cause.AWAY),
    504: (Outcome.UNKNOWN, Cause.AWAY),
}


def of_answer(
    status: int, answer: object, retry_after: str | None, is_starting: bool = False
) -> Failure | None:
    """The failure that an HTTP status means; None for final answers, good or bad.

    Parameters:
        answer: the body.
        retry_after: the header Retry-After, in seconds.
        is_starting: whether the server refuses all requests of all users.
    """
    if 300 <= status < 400:
        return Failure(Outcome.HOPELESS, Cause.AWAY, f"{NO_API_SERVER} {status}, {LOG_IN}")
    if status not in _PASSING and not is_starting:
        return None
    outcome, cause = _PASSING.get(status, (Outcome.NOT_DONE, Cause.AWAY))
    refusal = ApiError(status, answer)
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else 0.0
    return Failure(outcome, cause, str(refusal), refusal, seconds)


def of_error(error: HTTPError) -> Failure:
    """The failure that an exception of the HTTP library means."""
    cause: BaseException = error
    if isinstance(cause, MaxRetryError) and cause.reason:
        cause = cause.reason
    if isinstance(cause, ProxyError):
        cause = cause.original_error
    if isinstance(cause, LocationValueError) or _is_bad_certificate(cause):
        return Failure(Outcome.HOPELESS, Cause.AWAY, str(cause))
    # A refused connection, an unknown name, a time-out before the connection: nothing was sent.
    is_unsent = isinstance(cause, NewConnectionError | ConnectTimeoutError)
    return Failure(Outcome.NOT_DONE if is_unsent else Outcome.UNKNOWN, Cause.AWAY, str(cause))


def _is_bad_certificate(cause: BaseException) -> bool:
    """A server with another certificate than the kubeconfig's is a different server: we do not wait for it."""
    return isinstance(cause, SSLError) and any(
        isinstance(argument, ssl.SSLCertVerificationError) for argument in cause.args
    )
