"""Tries calls again while the API server is away."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from infra.agreed import ProgramError

T = TypeVar("T")
# A kubelet restarts a killed control plane within a minute.
PATIENCE_S = 120.0
PAUSE_S = 2.0
# A server that has just started answers 403 to every user until it has read its roles.
STARTING_S = 30.0
FORBIDDEN = 403
# The client gives a failed TLS handshake the status 0. The other codes are problems of the server or its proxy.
TRANSIENT = {0, 408, 429, 500, 502, 503, 504}


class UnreachableError(ProgramError):
    """The API server did not answer for too long (`Patience.limit_s`)."""


def is_transient(error: Exception) -> bool:
    """Whether the same call may succeed later: refused, reset, EOF, time-out, TLS, 408, 429, 5xx, no kubeconfig yet."""
    if isinstance(error, ApiException):
        return (error.status or 0) in TRANSIENT
    return isinstance(
        error, urllib3.exceptions.HTTPError | http.client.HTTPException | OSError | ConfigException
    )


@dataclass
class Patience:
    """Tries calls again while the API server is away.

    Parameters:
        show: gets a line when the server goes away, and one when it is back.
        limit_s: seconds that the server may be away, with no answer in between.
        starting_s: seconds that a 403 has to last before it counts.
    """

    show: Callable[[str], None]
    limit_s: float = PATIENCE_S
    starting_s: float = STARTING_S
    away_since: float | None = None
    forbidden_since: float | None = None

    def ask(self, call: Callable[[], T]) -> T:
        """The result of `call`. Raises UnreachableError, and at once each error that another try cannot remove."""
        while True:
            try:
                result = call()
            except Exception as error:
                if not is_transient(error) and not self._may_be_starting(error):
                    raise
                self.wait(error)
            else:
                self.end()
                return result

    def _may_be_starting(self, error: Exception) -> bool:
        """Whether `error` is a 403 from a server that may have just started."""
        if not isinstance(error, ApiException) or error.status != FORBIDDEN:
            return False
        now = time.monotonic()
        if self.forbidden_since is None:
            self.forbidden_since = now
        return now - self.forbidden_since < self.starting_s

    def wait(self, error: Exception) -> None:
        """Pause after a transient `error`. Raises UnreachableError if the server was away for too long."""
        now = time.monotonic()
        if self.away_since is None:
            self.away_since = now
            self.show(f"the API server does not answer; waiting up to {self.limit_s:.0f} s: {brief(error)}")
        elif now - self.away_since >= self.limit_s:
            raise UnreachableError(
                f"the API server did not answer for {self.limit_s:.0f} s: {brief(error)}\n"
                "  fix: when `kubectl get nodes` works again, run the same command again: it continues from here"
            ) from None
        time.sleep(PAUSE_S)

    def end(self) -> None:
        """Note that the server has answered."""
        self.forbidden_since = None
        if self.away_since is not None:
            self.show(f"the API server is back after {time.monotonic() - self.away_since:.0f} s")
            self.away_since = None


def brief(error: Exception) -> str:
    """One line about `error`, without a response's headers and body."""
    if isinstance(error, ApiException):
        return f"{error.status or 'TLS'} {error.reason}".splitlines()[0]
    reason = getattr(error, "reason", None)
    return (str(reason or error) or type(error).__name__).splitlines()[0]
