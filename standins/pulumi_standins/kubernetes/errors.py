"""Errors of requests to an API server, and of waits."""

from __future__ import annotations

from typing import Any

from pulumi_standins.kubernetes.objects import Kind
from pulumi_standins.kubernetes.values import Object


class ApiError(Exception):
    """The API server's own refusal; `str` is its message.

    Parameters:
        code: the HTTP status.
        body: the decoded answer, mostly a Status object.
    """

    def __init__(self, code: int, body: Any) -> None:
        status = body if isinstance(body, dict) and body.get("kind") == "Status" else {}
        self.code = code
        self.reason: str = status.get("reason", "")
        self.details: Object = status.get("details") or {}
        super().__init__(status.get("message") or f"the server answered {code}: {str(body)[:500]}")

    @property
    def causes(self) -> list[Object]:
        """What is wrong with an invalid object, one entry for each fault."""
        return self.details.get("causes") or []

    @property
    def is_missing(self) -> bool:
        """The API server itself says that the object or its namespace does not exist. A proxy's 404 does not count."""
        return self.code == 404 and self.reason == "NotFound"

    @property
    def is_missing_namespace(self) -> bool:
        """The object's namespace does not exist."""
        return self.code == 404 and self.details.get("kind") == "namespaces"

    @property
    def already_exists(self) -> bool:
        """Another object has this name."""
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        """Another manager owns a field, or the object changed meanwhile."""
        return self.code == 409 and self.reason == "Conflict"

    @property
    def is_lost_race(self) -> bool:
        """The object changed meanwhile: 409, or 422 from a JSON patch's `test`, each without `causes`."""
        return self.code in (409, 422) and not self.causes

    @property
    def is_forbidden(self) -> bool:
        """The user has no right to do this."""
        return self.code == 403


class NoSuchKindError(Exception):
    """The server does not know the kind; probably its CRD is missing."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(f'no matches for kind "{kind.kind}" in version "{kind.api_version}"')


class UnreachableError(Exception):
    """The API server has been away for longer than our patience, or something else answers."""


class AmbiguousError(UnreachableError):
    """The server may have done the request: the connection broke after it was sent, or a proxy answered.

    Parameters:
        refusal: what the server or the proxy answered, if anything.
    """

    def __init__(self, message: str, refusal: ApiError | None = None) -> None:
        super().__init__(message)
        self.refusal = refusal


class UnconfirmedError(UnreachableError):
    """An object was sent, but its creation is unknown: the server became unreachable, or the user stopped.

    Parameters:
        sent: the object, with its name.
    """

    def __init__(self, message: str, sent: Object) -> None:
        super().__init__(message)
        self.sent = sent


class CancelledError(Exception):
    """The user asked to stop."""

    def __init__(self, message: str = "operation cancelled by the user") -> None:
        super().__init__(message)


class NotReadyError(Exception):
    """The object exists but is not ready.

    Parameters:
        summary: one line for the error itself.
        findings: one line each.
        live: the object as last seen, for the state.
    """

    def __init__(self, summary: str, findings: list[str], live: Object) -> None:
        super().__init__(summary)
        self.findings = findings
        self.live = live
