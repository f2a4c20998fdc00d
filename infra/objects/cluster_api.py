"""The objects of a cluster as plain data.

The kubernetes package has classes for this, with a model of each kind. Their import takes a second in every process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import urllib3
from kubernetes import client
from kubernetes.client.api_client import RequestSerialized
from kubernetes.client.exceptions import ApiException

from infra.objects.api import ApiAddress, api_client
from infra.objects.kinds import POD, Kind
from storage.manifests import Manifest

JSON = "application/json"
# Content of a patch: a list of operations (RFC 6902), or the changed part of the object (RFC 7386).
OPERATIONS, PART = "application/json-patch+json", "application/merge-patch+json"
# How many characters of an unexpected answer are shown.
SHOWN = 60
# A bearer token, if the kubeconfig has one.
CREDENTIALS = ["BearerToken"]


class ClusterApi:
    """Objects of one cluster, by kind, name and namespace.

    An empty namespace means all namespaces, or a kind without namespaces.

    Each call raises ApiException for a failed request, and the errors of urllib3.

    Parameters:
        connection: knows the cluster's address and the user's credentials.
        timeout_s: seconds that one answer may take; None for no limit.
    """

    def __init__(self, connection: client.ApiClient, timeout_s: float | None = None) -> None:
        self.connection, self.timeout_s = connection, timeout_s

    @classmethod
    def at(
        cls, address: ApiAddress, retries: urllib3.Retry | None = None, timeout_s: float | None = None
    ) -> ClusterApi:
        """The API at `address`. Raises ConfigException for an unusable kubeconfig.

        Parameters:
            retries: of each request; None for urllib3's default.
            timeout_s: seconds that one answer may take.
        """
        return cls(api_client(address, retries), timeout_s)

    def get(self, kind: Kind, name: str, namespace: str = "") -> Manifest:
        """The object of this name."""
        return dict(self._data("GET", path(kind, namespace, name)))

    def listed(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[Manifest]:
        """The objects that the selectors match, each with its `kind`, which the server leaves out of lists."""
        found, _ = self.snapshot(kind, namespace, labels=labels, fields=fields)
        return [{**each, "kind": kind.kind} for each in found]

    def snapshot(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> tuple[list[Manifest], str]:
        """The objects as from `listed`, but without `kind`; and the version from which `watched` continues."""
        found = self._data("GET", path(kind, namespace), {"labelSelector": labels, "fieldSelector": fields})
        if "items" not in found:
            raise ApiException(0, f"the answer is not a list of {kind.plural}")
        return list(found["items"] or []), str((found.get("metadata") or {}).get("resourceVersion", ""))

    def watched(
        self,
        kind: Kind,
        namespace: str,
        version: str,
        limit_s: int,
        *,
        labels: str = "",
        fields: str = "",
    ) -> Iterator[Manifest]:
        """The changes, since `version`, of the objects that the selectors match, as the server sends them.

        Each event has a `type` (ADDED, MODIFIED, DELETED, BOOKMARK or ERROR) and an `object`.

        Parameters:
            limit_s: seconds after which the server ends the watch.
        """
        options = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": limit_s,
            "labelSelector": labels,
            "fieldSelector": fields,
        }
        chunks = self._stream(path(kind, namespace), options, self.timeout_s)
        return (json.loads(line) for line in lines(chunks) if line)

    def read(self, place: str, accept: str = JSON) -> Any:
        """The answer at the path `place`, in the format `accept`: data, or text if it is not JSON."""
        return self._answer(self._request("GET", place, {}, None, JSON, accept))

    def resources(self, group: str, version: str) -> list[Manifest]:
        """The kinds that the server has for a version of a group; `name` is a kind's plural."""
        return list(self._data("GET", f"/apis/{group}/{version}").get("resources") or [])

    def preferred_version(self, group: str) -> str:
        """The version of a group that the server prefers; empty if it names none."""
        return str((self._data("GET", f"/apis/{group}").get("preferredVersion") or {}).get("version", ""))

    def create(self, kind: Kind, manifest: Manifest, *, dry_run: bool = False) -> None:
        """Create an object; with `dry_run` the server only checks it."""
        place = path(kind, manifest["metadata"].get("namespace", ""))
        self._data("POST", place, {"dryRun": "All" if dry_run else ""}, manifest)

    def patch(self, kind: Kind, name: str, patch: Manifest | list[Manifest], namespace: str = "") -> None:
        """Change an object, by a list of operations or by its changed part."""
        content = OPERATIONS if isinstance(patch, list) else PART
        self._data("PATCH", path(kind, namespace, name), {}, patch, content)

    def delete(
        self, kind: Kind, name: str, namespace: str = "", *, propagation: str = "", uid: str = ""
    ) -> None:
        """Delete an object.

        Parameters:
            propagation: says what happens to the objects that it owns.
            uid: of the object. Another object of this name is not deleted: the server answers 409.
        """
        # With a body, the server ignores the query.
        options = {"propagationPolicy": propagation, "preconditions": {"uid": uid}}
        query = {} if uid else {"propagationPolicy": propagation}
        self._data("DELETE", path(kind, namespace, name), query, options if uid else None)

    def log(self, pod: str, namespace: str, **options: object) -> str:
        """A pod's log. `options` have the API's names: `container`, `previous`, `tailLines`.

        A program may print bytes that are not UTF-8: they are replaced.
        """
        text: bytes = self._data("GET", f"{path(POD, namespace, pod)}/log", options, wanted="bytes")
        return text.decode(errors="replace")

    def log_stream(self, pod: str, namespace: str, container: str, since: str = "") -> Iterator[bytes]:
        """A container's log while it is written. Each line begins with its time and a space.

        Parameters:
            since: a time in RFC 3339; the server uses whole seconds. Empty for the log's beginning, or, after the
                kubelet has rotated the log, the beginning of the last file.
        """
        options = {"container": container, "follow": True, "timestamps": True, "sinceTime": since}
        return self._stream(f"{path(POD, namespace, pod)}/log", options)

    def _stream(
        self, place: str, options: Mapping[str, object], timeout_s: float | None = None
    ) -> Iterator[bytes]:
        """An answer in parts. The next part may take up to `timeout_s` seconds."""
        request = self._request("GET", place, options, None, JSON)
        answer: Any = self.connection.call_api(*request, _request_timeout=timeout_s)
        if not 200 <= answer.status <= 299:
            answer.read()
            self.connection.response_deserialize(answer, {})
        chunks: Iterator[bytes] = answer.response.stream(decode_content=True)
        return chunks

    def _data(
        self,
        method: str,
        place: str,
        query: Mapping[str, object] | None = None,
        body: Manifest | list[Manifest] | None = None,
        content: str = JSON,
        wanted: str = "object",
    ) -> Any:
        found = self._answer(self._request(method, place, query or {}, body, content), wanted)
        if wanted == "object" and not isinstance(found, dict):
            raise ApiException(0, f"the answer is not an object: {str(found)[:SHOWN]!r}")
        return found

    def _answer(self, request: RequestSerialized, wanted: str = "object") -> Any:
        """Raises ApiException, with status 0 for a successful answer that was cut off."""
        answer: Any = self.connection.call_api(*request, _request_timeout=self.timeout_s)
        answer.read()
        try:
            return self.connection.response_deserialize(answer, {"2XX": wanted}).data
        except ValueError as error:
            raise ApiException(0, f"the answer cannot be read: {error}") from None

    def _request(
        self,
        method: str,
        place: str,
        query: Mapping[str, object],
        body: object,
        content: str,
        accept: str = JSON,
    ) -> RequestSerialized:
        given = [(key, value) for key, value in query.items() if value not in ("", None)]
        headers = {"Accept": accept} | ({} if body is None else {"Content-Type": content})
        return self.connection.param_serialize(
            method, place, {}, given, headers, body, auth_settings=CREDENTIALS
        )


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """The lines of a text that arrives in parts."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def path(kind: Kind, namespace: str = "", name: str = "") -> str:
    """The path of a kind's objects on the server."""
    parts = ["apis" if kind.group else "api", kind.api_version]
    parts += ["namespaces", quote(namespace, safe="")] if namespace else []
    parts += [kind.plural, *([quote(name, safe="")] if name else [])]
    return "/" + "/".join(parts)
