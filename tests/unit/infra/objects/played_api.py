"""A cluster's API whose answers a test gives: the package's own client makes the requests and reads the answers."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import urllib3
from kubernetes import client
from kubernetes.client.rest import RESTResponse
from kubernetes.config import ConfigException

from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi
from infra.objects.look import READY, Look


@dataclass(frozen=True)
class Request:
    """What the server is asked."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    content: str | None = None
    timeout_s: float | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


Answer = Callable[[Request], object]


def played(answer: Answer, timeout_s: float | None = None) -> ClusterApi:
    """An API where `answer` gives data, text, bytes, the status of an error, or the exception of the connection."""
    connection = client.ApiClient(client.Configuration(host="https://played"))

    def request(
        method: str, url: str, headers: Any, body: Any, post_params: Any, _request_timeout: Any
    ) -> Any:
        parts = urlsplit(url)
        asked = Request(
            *(method, parts.path, dict(parse_qsl(parts.query)), body),
            *(headers.get("Content-Type"), _request_timeout),
        )
        return RESTResponse(_response(answer(asked)))

    setattr(connection.rest_client, "request", request)  # noqa: B010 - mypy lets nobody replace a method
    return ClusterApi(connection, timeout_s)


class Looked(ApiAddress):
    """The address of `look`: without its kubeconfig there is no cluster to ask."""


def play(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> list[Request]:
    """Let every cluster that is asked from now on answer so, and be ready. Returns what `answer` is asked."""
    asked: list[Request] = []

    def ready(request: Request) -> object:
        if request.path == READY:
            return "ok"
        asked.append(request)
        return answer(request)

    def at(address: ApiAddress, *_: object) -> ClusterApi:
        if isinstance(address, Looked) and not address.is_there:
            raise ConfigException("no kubeconfig")
        return played(ready)

    monkeypatch.setattr(ClusterApi, "at", at)
    return asked


def look(limit_s: float = 0.0, kubeconfig: str | None = None) -> Look:
    """A look at such a cluster, with patience for `limit_s` seconds. Without its kubeconfig it counts as gone."""
    address = Looked(kubeconfig)
    return Look(address, lambda _: None, lambda: not address.is_there, limit_s)


def listed(*objects: Any) -> dict[str, Any]:
    """A list as the server gives it: the objects in it do not tell their kind."""
    return {"items": [{key: each[key] for key in each if key != "kind"} for each in objects]}


def _response(answer: object) -> urllib3.HTTPResponse:
    if isinstance(answer, Exception):
        raise answer
    status, content = (answer, {"kind": "Status"}) if isinstance(answer, int) else (200, answer)
    is_text = isinstance(content, str | bytes)
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    body = text if isinstance(text, bytes) else text.encode()
    headers = {"Content-Type": "text/plain" if is_text else "application/json"}
    return urllib3.HTTPResponse(
        io.BytesIO(body), headers, status, reason=f"status {status}", preload_content=False
    )
