"""The verbs of the Kubernetes API on plain dictionaries."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_standins.kubernetes.errors import ApiError, NoSuchKindError, UnreachableError
from pulumi_standins.kubernetes.failures import LOG_IN, NO_API_SERVER
from pulumi_standins.kubernetes.objects import Kind, kind_of, name_of, namespace_of
from pulumi_standins.kubernetes.streams import Stream
from pulumi_standins.kubernetes.transport import Transport
from pulumi_standins.kubernetes.values import Object

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"


@dataclass(frozen=True)
class Endpoint:
    """The path of a kind.

    Parameters:
        plural: the last part of the path of a collection, such as `configmaps`.
        is_namespaced: whether objects of the kind live in namespaces.
    """

    plural: str
    is_namespaced: bool


class ApiClient:
    """The verbs on one API server; asks once per group and version which kinds it serves.

    In every verb `namespace` may be empty for kinds without one, `manager` is the field manager's name, and `dry_run`
    lets the server check and default the request without storing it.

    Parameters:
        transport: sends the requests; it waits for an unreachable server.

    Raises (every verb):
        ApiError: the server refused.
        NoSuchKindError: the server does not serve the kind.
        UnreachableError: the server has been away for longer than our patience, or something else answers.
        CancelledError: the user asked to stop.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._lock = threading.Lock()
        self._served: dict[tuple[str, str], dict[str, Endpoint]] = {}

    def probe(self, *, hurried: bool) -> None:
        """Ask for the server's version: the first request, which shows whether the server can be reached.

        Parameters:
            hurried: do not wait for an unreachable server.

        Raises:
            UnreachableError: nothing answers, or something else than an API server.
            ApiError: the server refuses our login.
        """
        self.transport.request("GET", "/version", hurried=hurried, wanted="gitVersion")

    def endpoint(self, kind: Kind) -> Endpoint:
        """The path of objects of this kind; raises NoSuchKindError if the server does not serve it."""
        group_version = (kind.group, kind.version)
        with self._lock:
            served = self._served.get(group_version)
            if served is None or kind.kind not in served:
                served = self._served[group_version] = self._discover(kind)
        if kind.kind not in served:
            raise NoSuchKindError(kind)
        return served[kind.kind]

    def serves(self, kind: Kind) -> bool:
        """Whether objects of this kind can be created now."""
        try:
            self.endpoint(kind)
        except NoSuchKindError:
            return False
        return True

    def _discover(self, kind: Kind) -> dict[str, Endpoint]:
        try:
            listing = self.transport.request("GET", _prefix(kind))
        except ApiError as error:
            if error.code != 404:
                raise
            self._check_is_api_server(kind)
            return {}
        if listing["kind"] != "APIResourceList":
            raise UnreachableError(f"{NO_API_SERVER} {str(listing)[:100]!r}, {LOG_IN}")
        return {
            entry["kind"]: Endpoint(entry["name"], entry["namespaced"])
            for entry in listing.get("resources", [])
            if "/" not in entry["name"]
        }

    def _check_is_api_server(self, kind: Kind) -> None:
        """Raise UnreachableError if something else answered 404: only an API server can say that an object is gone.

        API servers answer "404 page not found" for unknown groups, and so does any other web server.
        """
        path, wanted = ("/apis", "APIGroupList") if kind.group else ("/api", "APIVersions")
        try:
            groups = self.transport.request("GET", path)
        except ApiError as error:
            if error.code != 404:
                raise
            raise UnreachableError(f"{NO_API_SERVER} 404: {str(error)[:100]}") from error
        if groups["kind"] != wanted:
            raise UnreachableError(f"{NO_API_SERVER} 404 and {str(groups)[:100]!r}")

    def path(self, kind: Kind, namespace: str, name: str = "") -> str:
        """The object's path, or its collection's without a name; namespaced objects default to `default`."""
        endpoint = self.endpoint(kind)
        parts = [_prefix(kind)]
        if endpoint.is_namespaced:
            parts += ["namespaces", namespace or "default"]
        parts.append(endpoint.plural)
        if name:
            parts.append(name)
        return "/".join(parts)

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """Read one object."""
        return self.transport.request("GET", self.path(kind, namespace, name))

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Read one object; None if the server does not have it, or does not know its kind."""
        try:
            return self.get(kind, namespace, name)
        except NoSuchKindError:
            return None
        except ApiError as error:
            if error.is_missing:
                return None
            raise

    def list(self, kind: Kind, namespace: str, **query: str) -> Object:
        """Read a collection; `labelSelector` and `fieldSelector` narrow it."""
        return self.transport.request("GET", self.path(kind, namespace), query=query)

    def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """POST; raises AmbiguousError if the object may have been created: see posting.py."""
        path = self.path(kind_of(obj), namespace_of(obj))
        return self.transport.request("POST", path, body=obj, query=_options(dry_run))

    def apply(self, obj: Object, *, manager: str, force: bool, dry_run: bool = False) -> Object:
        """Server-side apply as the given field manager; `force` takes fields from their owners."""
        query = {"fieldManager": manager, "force": str(force).lower(), **_options(dry_run)}
        return self._patch(obj, obj, APPLY, query)

    def replace(self, obj: Object, *, manager: str, dry_run: bool = False) -> Object:
        """PUT the whole object; its resourceVersion must be the current one."""
        path = self.path(kind_of(obj), namespace_of(obj), name_of(obj))
        query = {"fieldManager": manager, **_options(dry_run)}
        return self.transport.request("PUT", path, body=obj, query=query)

    def json_patch(self, obj: Object, patch: Sequence[Object]) -> Object:
        """JSON patch (RFC 6902)."""
        return self._patch(obj, patch, JSON_PATCH, {})

    def _patch(self, obj: Object, patch: Any, content_type: str, query: Mapping[str, str]) -> Object:
        path = self.path(kind_of(obj), namespace_of(obj), name_of(obj))
        return self.transport.request("PATCH", path, body=patch, content_type=content_type, query=query)

    def delete(self, kind: Kind, namespace: str, name: str, *, propagation: str) -> Object:
        """DELETE with a propagation policy; the answer is the object if its deletion takes time, else a Status."""
        path = self.path(kind, namespace, name)
        return self.transport.request("DELETE", path, body={"propagationPolicy": propagation})

    def watch(self, kind: Kind, namespace: str, *, seconds: float, **query: str) -> Stream:
        """Open a watch on a collection for so many seconds at most; see `list` for the query."""
        options = {"watch": "true", "timeoutSeconds": str(max(1, int(seconds))), **query}
        return self.transport.stream(self.path(kind, namespace), options, seconds=seconds + 5)

    def add_kinds_of(self, crd: Object) -> None:
        """Use the kinds of an established CRD at once: discovery lists them only after a second or two."""
        spec = crd["spec"]
        for version in spec["versions"]:
            if version.get("served"):
                kind = Kind(spec["group"], version["name"], spec["names"]["kind"])
                endpoint = Endpoint(spec["names"]["plural"], spec["scope"] == "Namespaced")
                with self._lock:
                    self._served.setdefault((kind.group, kind.version), {})[kind.kind] = endpoint

    def forget(self) -> None:
        """Delete cached discovery: a CRD was created or changed."""
        with self._lock:
            self._served.clear()


def _prefix(kind: Kind) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def _options(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}
