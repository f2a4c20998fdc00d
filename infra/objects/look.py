"""Reads a cluster for the guards, which decide whether the program may touch something.

A guard asks for objects. Each object is absent, present or *unknown*: forbidden or unreachable. Unknown is an error. An
unreachable object ends the program, which then touches nothing. A few guards catch the error for a forbidden object:
they assume that others have the object, or leave the check to the API server.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from infra.agreed import ProgramError
from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi
from infra.objects.kinds import Kind
from infra.objects.retry import FORBIDDEN, STARTING_S, Patience, T, UnreachableError, brief, is_transient
from storage.manifests import Manifest

ANSWER_S = 10.0
"""How long one answer may take, in seconds."""
PATIENCE_S = 60.0
"""How long the API server may be away without a break, in seconds. `make up` has waited for it already."""
NOT_FOUND = 404
READY = "/readyz"


class UnknownError(ProgramError):
    """An object could not be read, so nothing may be touched."""


class ForbiddenError(UnknownError):
    """This user lacks the right to read the object."""


class _GoneError(Exception):
    """The cluster provably no longer exists."""


class _UnusableError(Exception):
    """The kubeconfig names no server: waiting does not help."""


def never() -> bool:
    """Nothing proves that somebody else's cluster no longer exists."""
    return False


@dataclass
class Look:
    """Asks one cluster. If the cluster provably no longer exists, all objects are absent.

    A 403 counts only if the server has said that it is ready, or if the 403 lasts: a server that has just started
    refuses every user.

    Parameters:
        show: gets a line when the server goes away, and one when it is back.
        is_gone: called if there is no kubeconfig or no answer. Only True proves that the cluster no longer exists.
        limit_s, answer_s: see PATIENCE_S and ANSWER_S.
    """

    address: ApiAddress
    show: Callable[[str], None]
    is_gone: Callable[[], bool] = never
    limit_s: float = PATIENCE_S
    answer_s: float = ANSWER_S

    def __post_init__(self) -> None:
        self._patience = Patience(self.show, self.limit_s)
        self._is_ready = self._is_proved_gone = False

    @property
    def is_there(self) -> bool:
        """Whether there is a cluster to ask, by the answers so far."""
        return not self._is_proved_gone

    def get(self, kind: Kind, name: str, namespace: str = "", *, without: str = "") -> Manifest | None:
        """The object of this name; None if it is absent. Raises UnknownError.

        Parameters:
            without: what the error advises a user who lacks the right to read the object.
        """

        def ask() -> Manifest:
            answer = self._api.get(kind, name, namespace)
            if "metadata" not in answer:
                raise ApiException(0, f"the answer is not a {kind.kind}")
            return answer

        return self._ask(ask, kind, f"{kind.kind} {name}", f"get {_plural(kind, namespace)}", without)

    def listed(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", without: str = ""
    ) -> list[Manifest] | None:
        """The objects that the selectors match, each with its `kind`; None if the server lacks that kind.

        Raises UnknownError.

        Parameters:
            without: as for `get`.
        """

        def ask() -> list[Manifest]:
            return self._api.listed(kind, namespace, labels=labels, fields=fields)

        return self._ask(ask, kind, f"its {kind.plural}", f"list {_plural(kind, namespace)}", without)

    def serves(self, kind: Kind) -> bool:
        """Whether the server has this kind. Every user may ask that. Raises UnknownError."""
        asked = self._ask(
            lambda: self._api.resources(kind.group, kind.version), kind, kind.group, f"get {kind.group}", ""
        )
        return any(each["name"] == kind.plural for each in asked or [])

    def items(self, place: str, accept: str) -> list[Any]:
        """The items of the list at the path `place`, in the format `accept`. Raises UnknownError."""

        def ask() -> list[Any]:
            answer = self._api.read(place, accept)
            if not isinstance(answer, dict) or "items" not in answer:
                raise ApiException(0, f"{place} is not a list")
            return answer["items"] or []

        return self._ask(ask, None, place, f"get {place}", "") or []

    @cached_property
    def _api(self) -> ClusterApi:
        return ClusterApi.at(self.address, urllib3.Retry(0, redirect=False), self.answer_s)

    def _ask(self, call: Callable[[], T], kind: Kind | None, what: str, right: str, without: str) -> T | None:
        """The result of `call`; None if the server says that the object does not exist. Raises UnknownError."""
        if not self.is_there:
            return None
        try:
            return self._patience.ask(lambda: self._once(call))
        except _GoneError:
            return None
        except _UnusableError as error:
            fix = "name an existing kubeconfig (`trainstack:cluster.kubeconfig`, or KUBECONFIG)"
            raise self._unreachable(what, str(error), fix) from None
        except UnreachableError as error:
            raise self._unreachable(what, str(error).splitlines()[0]) from None
        except ApiException as error:
            if error.status == FORBIDDEN:
                raise _forbidden(right, without) from None
            if error.status == NOT_FOUND and kind and self._is_absent(kind, error):
                return None
            raise self._unreachable(what, brief(error)) from None

    def _once(self, call: Callable[[], T]) -> T:
        try:
            if not self._is_ready:
                self._ensure_ready()
            return call()
        except Exception as error:
            if is_transient(error):
                self._is_ready = False
                vars(self).pop("_api", None)  # the kubeconfig may change meanwhile
                self._is_proved_gone = self.is_gone()
                if self._is_proved_gone:
                    raise _GoneError from None
            if isinstance(error, ConfigException):
                raise _UnusableError(brief(error)) from None
            raise

    def _ensure_ready(self) -> None:
        """Raises the reason why the server is not ready.

        If the server does not say whether it is ready, a 403 counts only if the 403 lasts.
        """
        self._patience.starting_s = min(STARTING_S, self.limit_s)
        try:
            said = self._api.read(READY)
        except ApiException as error:
            if error.status not in (FORBIDDEN, NOT_FOUND):
                raise
        else:
            if said != "ok":
                raise ApiException(0, f"{READY} says {str(said)[:60]!r} instead of ok")
            self._patience.starting_s = 0
        self._is_ready = True

    def _unreachable(
        self, what: str, why: str, fix: str = "make sure that `kubectl get --raw /readyz` says ok"
    ) -> UnknownError:
        by = f" (kubeconfig {self.address.kubeconfig})" if self.address.kubeconfig else ""
        return UnknownError(
            f"the cluster cannot be asked for {what}{by}: {why}; nothing was touched\n"
            f"  fix: {fix}; then run the same command again"
        )

    def _is_absent(self, kind: Kind, error: ApiException) -> bool:
        """Whether the 404 comes from the server. For a missing group its answer is plain text, like a proxy's."""
        try:
            if json.loads(error.body or "")["kind"] == "Status":
                return True
        except (ValueError, KeyError, TypeError):
            pass  # plain text: from the server for a missing group, or from a proxy
        try:
            return bool(kind.group) and self._lacks(kind)
        except _GoneError:
            return True
        except (ApiException, UnreachableError, _UnusableError):
            return False

    def _lacks(self, kind: Kind) -> bool:
        """Whether the server lists its kinds, and `kind` is not in the list."""
        groups = self._patience.ask(lambda: self._once(lambda: self._api.read("/apis")))
        if not isinstance(groups, dict) or "groups" not in groups:
            return False
        served = {found["groupVersion"] for each in groups["groups"] for found in each["versions"]}
        if kind.api_version not in served:
            return True
        kinds = self._patience.ask(lambda: self._once(lambda: self._api.resources(kind.group, kind.version)))
        return kind.plural not in {each["name"] for each in kinds}


def _plural(kind: Kind, namespace: str) -> str:
    group = f".{kind.group}" if kind.group else ""
    return f"{kind.plural}{group} in {f'namespace {namespace}' if namespace else 'the whole cluster'}"


def _forbidden(right: str, without: str) -> ForbiddenError:
    return ForbiddenError(
        f"this user may not {right} (403 Forbidden); nothing was touched\n"
        f"  fix: ask an administrator for this right{f', or {without}' if without else ''}; "
        "docs/security.md lists the rights"
    )
