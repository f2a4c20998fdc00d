"""What kubeconfigs may hold: exec plugins, token files, certificates, proxies, contexts, several files."""

from __future__ import annotations

import base64
import http.server
import socket
import socketserver
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from standins.tests.apiserver import ApiServer
from standins.tests.driver import CallError, Driver
from standins.tests.flaky import changed_config
from standins.tests.samples import config_map

pytestmark = pytest.mark.apiserver


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


def test_a_client_certificate_logs_in(api_server: ApiServer, namespace: str) -> None:
    certificate = (api_server.folder / "admin.crt").read_bytes()
    key = (api_server.folder / "admin.key").read_bytes()
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    config["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    with Driver(kubeconfig=yaml.safe_dump(config)) as driver:
        driver.delete(driver.create(config_map(namespace)))
    files = {"client-certificate": "admin.crt", "client-key": "admin.key"}
    config["users"][0]["user"] = files
    beside = api_server.folder / "certificates.yaml"
    beside.write_text(yaml.safe_dump(config))
    with Driver(kubeconfig=str(beside)) as driver:
        driver.delete(driver.create(config_map(namespace)))


def test_the_default_kubeconfigs_are_merged(
    api_server: ApiServer, tmp_path: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kubectl does: lists are joined, of two entries with one name the first counts."""
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    users = {"users": config.pop("users")}
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(yaml.safe_dump(config))
    second.write_text(yaml.safe_dump({**users, "current-context": "other"}))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}:{tmp_path / 'missing'}")
    with Driver() as driver:
        driver.delete(driver.create(config_map(namespace)))


def test_context_and_cluster_override_the_kubeconfig(api_server: ApiServer, namespace: str) -> None:
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    good = config["clusters"][0]
    config["clusters"] = [
        {"name": "test", "cluster": {"server": "https://127.0.0.1:1"}},
        {**good, "name": "good"},
    ]
    config["contexts"].append({"name": "other", "context": {"cluster": "test", "user": "admin"}})
    config["contexts"][0]["context"]["user"] = "nobody"
    with Driver(kubeconfig=yaml.safe_dump(config), context="other", cluster="good") as driver:
        driver.delete(driver.create(config_map(namespace)))
