"""Something that is no API server answers: a login page, a proxy without a route. Nothing may count as done or gone."""

from __future__ import annotations

import http.server
import inspect
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import AmbiguousError, UnconfirmedError, UnreachableError
from pulumi_standins.kubernetes.objects import Kind
from pulumi_standins.kubernetes.posting import post
from pulumi_standins.kubernetes.session import Session

from standins.tests.driver import CallError, Driver, Object, Resource, urn_of
from standins.tests.samples import config_map, definition

CONFIG_MAP = Kind("", "v1", "ConfigMap")
MADE = {**config_map("n", a="1"), "metadata": {"name": "it", "namespace": "n", "uid": "1"}}

REDIRECTS = {f"{status}": (status, b"") for status in (300, 302, 304, 308)}
OTHERS = {
    "a page": (200, b"<html>Log in</html>"),
    "nothing": (200, b""),
    "no content": (204, b""),
    "other JSON": (200, b'{"status": "ok"}'),
    "no map": (200, b'["ok"]'),
    "a created page": (201, b"<html></html>"),
}
ANSWERS = {**REDIRECTS, **OTHERS}

VERBS: dict[str, Callable[[ApiClient], object]] = {
    "probe": lambda client: client.probe(hurried=False),
    "endpoint": lambda client: client.endpoint(Kind("example.com", "v1", "Thing")),
    "serves": lambda client: client.serves(Kind("example.com", "v1", "Thing")),
    "get": lambda client: client.get(CONFIG_MAP, "n", "it"),
    "find": lambda client: client.find(CONFIG_MAP, "n", "it"),
    "list": lambda client: client.list(CONFIG_MAP, "n"),
    "create": lambda client: client.create(MADE),
    "apply": lambda client: client.apply(MADE, manager="m", force=False),
    "replace": lambda client: client.replace(MADE, manager="m"),
    "json_patch": lambda client: client.json_patch(MADE, []),
    "delete": lambda client: client.delete(CONFIG_MAP, "n", "it", propagation="Foreground"),
    "watch": lambda client: client.watch(CONFIG_MAP, "n", seconds=1),
}
WITHOUT_REQUEST = {"path", "add_kinds_of", "forget"}


class Impostor:
    """Answers as an API server, and from `answer` on every request with the same.

    Attributes:
        answer: status and body, or None for what an API server answers.
        requests: the methods so far.
    """

    def __init__(self) -> None:
        self.answer: tuple[int, bytes] | None = None
        self.requests: list[str] = []
        impostor = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                impostor.requests.append(self.command)
                status, body = impostor.answer or (200, json.dumps(api_answer(self.path)).encode())
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if 300 <= status < 400:
                    self.send_header("Location", "https://login.example.com/")
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        port = self._server.server_address[1]
        self.kubeconfig = json.dumps(
            {
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def api_answer(path: str) -> Object:
    if path == "/version":
        return {"gitVersion": "v1.34.0", "major": "1", "minor": "34"}
    if path == "/api/v1":
        resources = [{"name": "configmaps", "namespaced": True, "kind": "ConfigMap"}]
        return {"kind": "APIResourceList", "resources": resources}
    if path == "/apis/apiextensions.k8s.io/v1":
        crds = {"name": "customresourcedefinitions", "namespaced": False, "kind": "CustomResourceDefinition"}
        return {"kind": "APIResourceList", "resources": [crds]}
    return MADE


@pytest.fixture
def impostor() -> Iterator[Impostor]:
    running = Impostor()
    yield running
    running.close()


@pytest.fixture
def driver(impostor: Impostor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A provider that has met an API server; pauses are short."""
    monkeypatch.setenv("PULUMI_STANDINS_PATIENCE", "0.2")
    monkeypatch.setattr("pulumi_standins.kubernetes.patience._LONGEST_PAUSE", 0.01)
    with Driver(kubeconfig=impostor.kubeconfig) as running:
        yield running


@pytest.fixture
def client(driver: Driver) -> ApiClient:
    """A client that has asked for the kind of ConfigMaps."""
    connected = driver.provider._client
    assert connected is not None
    connected.endpoint(CONFIG_MAP)
    return connected


# Of a watch only the answer's status is read here: what it carries and is no event is no event.
@pytest.mark.parametrize(
    ("verb", "answer"),
    [(verb, answer) for verb in VERBS for answer in (REDIRECTS if verb == "watch" else ANSWERS)],
)
def test_no_verb_takes_it_for_an_answer(
    impostor: Impostor, client: ApiClient, verb: str, answer: str
) -> None:
    impostor.answer = ANSWERS[answer]
    with pytest.raises(UnreachableError, match="no Kubernetes API server"):
        VERBS[verb](client)


@pytest.mark.parametrize("answer", ANSWERS)
def test_discovery_does_not_take_it_for_a_missing_kind(
    impostor: Impostor, client: ApiClient, answer: str
) -> None:
    client.forget()
    impostor.answer = ANSWERS[answer]
    with pytest.raises(UnreachableError, match="no Kubernetes API server"):
        client.find(CONFIG_MAP, "n", "it")


def test_discovery_takes_only_a_list_of_kinds(impostor: Impostor, client: ApiClient) -> None:
    client.forget()
    impostor.answer = 200, b'{"kind": "Page"}'
    with pytest.raises(UnreachableError, match="no Kubernetes API server"):
        client.find(CONFIG_MAP, "n", "it")


def test_the_verbs_are_all() -> None:
    methods = {name for name, _ in inspect.getmembers(ApiClient, inspect.isfunction) if name[0] != "_"}
    assert set(VERBS) == methods - WITHOUT_REQUEST


def resource(obj: Object) -> Resource:
    outputs = {**obj, "__inputs": obj, "__initialApiVersion": obj["apiVersion"], "__fieldManager": "m"}
    return Resource(urn_of(obj, "it"), "n/it", obj, outputs)


CRD = definition("example.com")
CRD["metadata"]["uid"] = "1"

OPERATIONS: dict[str, Callable[[Driver], object]] = {
    "create": lambda driver: driver.create(config_map("n", a="1")),
    "preview": lambda driver: driver.create(config_map("n", a="1"), preview=True),
    "read": lambda driver: driver.read(resource(MADE)),
    "update": lambda driver: driver.update(resource(MADE), config_map("n", a="2")),
    "replace": lambda driver: driver.update(resource(CRD), CRD),
    "delete": lambda driver: driver.delete(resource(MADE)),
}


@pytest.mark.parametrize("is_discovered", [True, False], ids=["kind known", "kind asked for"])
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_state_stays_as_it_is(
    impostor: Impostor, driver: Driver, operation: str, answer: str, is_discovered: bool
) -> None:
    assert driver.provider._client is not None
    if is_discovered:
        for kind in (CONFIG_MAP, Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")):
            driver.provider._client.endpoint(kind)
    impostor.answer = ANSWERS[answer]
    with pytest.raises(CallError, match="no Kubernetes API server") as failed:
        OPERATIONS[operation](driver)
    # Behind a page with status 200 the object may have been made: the next run settles that.
    is_unclear = operation == "create" and is_discovered and answer in OTHERS
    assert (failed.value.partial is not None) == is_unclear


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_creation_is_unclear_where_the_request_may_have_been_passed_on(
    impostor: Impostor, driver: Driver, client: ApiClient, answer: str
) -> None:
    provider = driver.provider
    session = Session(client, provider._engine, provider._settings, provider._cancelled)
    impostor.answer = ANSWERS[answer]
    with pytest.raises(UnreachableError) as failed:
        post(session, MADE)
    assert isinstance(failed.value, UnconfirmedError) == (answer in OTHERS)
    assert impostor.requests.count("POST") == 1
    with pytest.raises(UnreachableError) as tried:
        client.create(MADE, dry_run=True)
    assert not isinstance(tried.value, AmbiguousError), "a dry run makes nothing"
