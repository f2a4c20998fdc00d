"""Servers that are busy, flaky or restarting, and logins that the client library has to make."""

from __future__ import annotations

import http.server
import socketserver
import ssl
import stat
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.plugin.apiserver import ApiServer
from tests.plugin.driver import CallError, Driver, Object

pytestmark = pytest.mark.apiserver


class FlakyProxy:
    """Passes requests on to the API server, after as many faults as it is told to make.

    Parameters:
        faults: for each method, what to do with its next requests: an HTTP status, `drop` (break the connection
            before the server sees it) or `lose` (break it after the server has answered).
    """

    def __init__(self, server: ApiServer) -> None:
        self.faults: dict[str, list[int | str]] = {}
        self.requests: list[str] = []
        self._target = f"https://127.0.0.1:{server.port}"
        self._context = ssl._create_unverified_context()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                proxy.pass_on(self)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def pass_on(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.requests.append(handler.command)
        faults = self.faults.get(handler.command) or []
        fault = faults.pop(0) if faults else None
        if fault == "drop":
            handler.connection.shutdown(2)
            return
        if isinstance(fault, int):
            self._answer(handler, fault, b"{}", {"Retry-After": "1"} if fault == 429 else {})
            return
        headers = {key: value for key, value in handler.headers.items() if key.lower() != "host"}
        request = urllib.request.Request(
            self._target + handler.path, data=body or None, headers=headers, method=handler.command
        )
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=30) as answer:
                status, content = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        if fault == "lose":
            handler.connection.shutdown(2)
            return
        self._answer(handler, status, content, {})

    @staticmethod
    def _answer(
        handler: http.server.BaseHTTPRequestHandler, status: int, content: bytes, headers: dict[str, str]
    ) -> None:
        handler.send_response(status)
        for key, value in headers.items():
            handler.send_header(key, value)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def proxy(api_server: ApiServer) -> Iterator[FlakyProxy]:
    running = FlakyProxy(api_server)
    yield running
    running.close()


@pytest.fixture
def flaky(api_server: ApiServer, proxy: FlakyProxy) -> Iterator[Driver]:
    """A provider behind the proxy."""
    with Driver(kubeconfig=changed_config(api_server, cluster={"server": proxy.url})) as running:
        yield running


def changed_config(server: ApiServer, **changes: Object) -> str:
    """The server's kubeconfig with other entries for its cluster or user."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    for inner, change in changes.items():
        entry = config[f"{inner}s"][0]
        entry[inner] = {**entry[inner], **change}
    return yaml.safe_dump(config)


def config_map(namespace: str) -> Object:
    metadata = {"name": "it", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


@pytest.mark.parametrize("fault", [429, 503, "drop", "lose"])
def test_passing_faults_are_tried_again(
    flaky: Driver, proxy: FlakyProxy, namespace: str, fault: int | str
) -> None:
    proxy.faults = {method: [fault] for method in ("GET", "POST", "DELETE")}
    made = flaky.create(config_map(namespace))
    assert flaky.read(made) is not None
    flaky.delete(made)
    assert flaky.read(made) is None
    assert proxy.requests.count("POST") == 2


def test_an_object_of_somebody_else_is_not_adopted_after_a_lost_answer(
    flaky: Driver, proxy: FlakyProxy, driver: Driver, namespace: str
) -> None:
    """Both create the same name; the second's first request is lost before the server sees it."""
    driver.create(config_map(namespace))
    time.sleep(7)
    proxy.faults = {"POST": ["drop"]}
    with pytest.raises(CallError, match="already exists"):
        flaky.create(config_map(namespace))


def test_a_wait_survives_a_restart_of_the_server(
    api_server: ApiServer, driver: Driver, namespace: str
) -> None:
    waited = config_map(namespace)
    waited["metadata"]["annotations"] = {"pulumi.com/waitFor": "jsonpath={.data.late}=yes"}
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(driver.create(waited, timeout=90)))
    thread.start()
    time.sleep(2)
    api_server.stop_server()
    api_server.start_server()
    api_server.wait_until_ready(time.monotonic() + 60)
    from tests.plugin.conftest import cluster_of
    from toolchain.plugins.kubernetes.cluster import MERGE_PATCH

    path = f"/api/v1/namespaces/{namespace}/configmaps/it"
    cluster_of(api_server).transport.request(
        "PATCH", path, body={"data": {"late": "yes"}}, content_type=MERGE_PATCH
    )
    thread.join(timeout=60)
    assert result, "the wait ended with the restart"
    assert result[0].outputs["data"]["late"] == "yes"


def test_an_exec_plugin_logs_in(api_server: ApiServer, tmp_path: Path, namespace: str) -> None:
    script = tmp_path / "login"
    script.write_text(
        f"#!{sys.executable}\nimport json\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        f" 'status': {{'token': {api_server.token!r}}}}}))\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IEXEC)
    login = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(script),
        "interactiveMode": "Never",
    }
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    config["users"][0]["user"] = {"exec": login}
    with Driver(kubeconfig=yaml.safe_dump(config)) as driver:
        driver.delete(driver.create(config_map(namespace)))


def test_a_token_file_and_certificate_data_work(
    api_server: ApiServer, tmp_path: Path, namespace: str
) -> None:
    import base64

    token = tmp_path / "token"
    token.write_text(api_server.token)
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    config["users"][0]["user"] = {"tokenFile": str(token)}
    entry = config["clusters"][0]["cluster"]
    entry["certificate-authority-data"] = base64.b64encode(
        Path(entry.pop("certificate-authority")).read_bytes()
    ).decode()
    with Driver(kubeconfig=yaml.safe_dump(config)) as driver:
        driver.delete(driver.create(config_map(namespace)))


def test_the_proxy_of_the_kubeconfig_is_used(api_server: ApiServer, namespace: str) -> None:
    seen: list[str] = []

    class Tunnel(http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            import socket

            seen.append(self.path)
            host, _, port = self.path.partition(":")
            upstream = socket.create_connection((host, int(port)))
            self.send_response(200)
            self.end_headers()

            def pump(source: socket.socket, target: socket.socket) -> None:
                try:
                    while chunk := source.recv(65536):
                        target.sendall(chunk)
                except OSError:
                    pass

            threading.Thread(target=pump, args=(upstream, self.connection), daemon=True).start()
            pump(self.connection, upstream)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Tunnel) as tunnel:
        threading.Thread(target=tunnel.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{tunnel.server_address[1]}"
        with Driver(kubeconfig=changed_config(api_server, cluster={"proxy-url": url})) as driver:
            driver.delete(driver.create(config_map(namespace)))
        tunnel.shutdown()
    assert seen


def test_a_wrong_context_or_certificate_is_named(api_server: ApiServer, namespace: str) -> None:
    wrong = {"context": "nowhere", "kubeconfig": str(api_server.kubeconfig)}
    with Driver(**wrong) as driver, pytest.raises(CallError, match='context "nowhere" does not exist'):
        driver.create(config_map(namespace))
    wrong = {"kubeconfig": changed_config(api_server, user={"token": "wrong"})}
    with Driver(**wrong) as driver, pytest.raises(CallError, match="Unauthorized"):
        driver.create(config_map(namespace))
