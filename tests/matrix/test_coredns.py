"""Our build of CoreDNS serves kubeadm's own Corefile: every plugin in it is there, and names are answered."""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from standins.tests.apiserver import ApiServer, free_ports
from tests.e2e.waiting import wait_until
from toolchain.tools import build, go_modules

PATIENCE_S = 300.0
RESEND_S = 5.0  # as resolv.conf(5) has it
UPSTREAM_ADDRESS = "192.0.2.7"
POD_ADDRESS = "198.51.100.9"
_PLUGIN = re.compile(r"^ {4}([a-z]+)", re.MULTILINE)


@pytest.fixture(scope="module")
def program() -> Path:
    return build.build("kubernetes") / "coredns"


@pytest.fixture(scope="module")
def corefile() -> str:
    """What kubeadm, of the version that we build, gives a cluster."""
    printed = _kubeadm("init", "phase", "addon", "coredns", "--print-manifest")
    maps = [each for each in yaml.safe_load_all(printed) if each["kind"] == "ConfigMap"]
    return str(maps[0]["data"]["Corefile"])


def _kubeadm(*arguments: str) -> str:
    version = ("--kubernetes-version", f"v{go_modules.load('kubernetes').version}")
    return _printed(build.build("kubernetes") / "kubeadm", *arguments, *version)


def _printed(program: Path, *arguments: str) -> str:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def upstream() -> Iterator[int]:
    """The port of a name server that knows one address for every name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                query, sender = server.recvfrom(4096)
                if query == b"end":
                    return
                record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(UPSTREAM_ADDRESS)
                end = query.index(b"\0", 12) + 5
                head = query[:2] + struct.pack("!HHHHH", 0x8180, 1, 1, 0, 0)
                server.sendto(head + query[12:end] + record, sender)

        thread = threading.Thread(target=serve)
        thread.start()
        port = int(server.getsockname()[1])
        yield port
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closing:
            closing.sendto(b"end", ("127.0.0.1", port))
        thread.join()


@pytest.fixture(scope="module")
def running(
    program: Path,
    corefile: str,
    upstream: int,
    api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, int]]:
    """CoreDNS with that Corefile; only addresses and the way to the API server are this machine's."""
    folder = tmp_path_factory.mktemp("coredns")
    ports = dict(zip(("dns", "health", "ready", "prometheus"), free_ports(4), strict=True))
    text = corefile.replace(".:53 {", f".:{ports['dns']} {{").replace(
        "health {", f"health 127.0.0.1:{ports['health']} {{"
    )
    text = text.replace("    ready\n", f"    ready 127.0.0.1:{ports['ready']}\n")
    text = text.replace("prometheus :9153", f"prometheus 127.0.0.1:{ports['prometheus']}")
    text = text.replace("/etc/resolv.conf", f"127.0.0.1:{upstream}").replace("lameduck 5s", "lameduck 0s")
    text = text.replace("pods insecure", f"pods insecure\n       kubeconfig {api_server.kubeconfig}")
    (folder / "Corefile").write_text(text)
    with (folder / "log").open("wb") as log:
        started = subprocess.Popen([program, "-conf", folder / "Corefile"], stdout=log, stderr=log)
        try:
            wait_until_ready(started, ports["ready"], folder / "log")
            yield ports
        finally:
            started.terminate()
            started.wait()


def wait_until_ready(started: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        assert started.poll() is None, log.read_text()
        try:
            if fetched(port, "ready") == "OK":
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise AssertionError(f"not ready after {PATIENCE_S} s: {log.read_text()}")


def fetched(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def address_of(name: str, port: int) -> str | None:
    """The first address that the server on `port` knows for `name`; None where it says that there is no such name."""
    labels = b"".join(bytes([len(word)]) + word.encode() for word in name.split("."))
    query = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", 1, 1)
    answer = answered(query, port)
    _, flags, _, answers, _, _ = struct.unpack("!HHHHHH", answer[:12])
    assert flags & 0x000F in (0, 3), f"the server failed: {answer!r}"
    # One question as long as ours, then the record: a name of two bytes, type, class, life time, length, address.
    record = answer.index(b"\0", 12) + 5
    if not answers:
        return None
    name_length = 2 if answer[record] & 0xC0 else answer.index(b"\0", record) - record + 1
    start = record + name_length + 10
    return socket.inet_ntoa(answer[start : start + 4])


def answered(query: bytes, port: int) -> bytes:
    """What the server says, asked again as resolvers do: CoreDNS calls itself ready before it listens for names."""
    end = time.monotonic() + PATIENCE_S
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(RESEND_S)
        while True:
            asking.sendto(query, ("127.0.0.1", port))
            try:
                return asking.recv(4096)
            except TimeoutError:
                assert time.monotonic() < end, f"no answer within {PATIENCE_S} s"


def wait_for(name: str, port: int) -> str | None:
    """Its address, once CoreDNS has heard of it."""
    wait_until(f"{name} has an address", lambda: address_of(name, port) is not None, PATIENCE_S)
    return address_of(name, port)


def test_etcd_and_coredns_have_the_versions_that_kubeadm_expects(program: Path) -> None:
    """CoreDNS' patch version may differ: see docs/adr/0003-go-modules.md."""
    images = _kubeadm("config", "images", "list")
    etcd = re.findall(r"etcd Version: (\S+)", _printed(program.with_name("etcd"), "--version"))
    coredns = re.findall(r"CoreDNS-(\d+\.\d+)\.", _printed(program, "-version"))
    assert f"/etcd:{etcd[0]}-" in images
    assert f"/coredns:v{coredns[0]}." in images


def test_every_plugin_that_kubeadm_asks_for_is_compiled_in(program: Path, corefile: str) -> None:
    wanted = set(_PLUGIN.findall(corefile))
    assert len(wanted) > 5, corefile
    listed = subprocess.run([program, "-plugins"], capture_output=True, text=True, check=True).stdout
    assert wanted <= set(listed.split())


@pytest.mark.apiserver
def test_a_service_has_a_name(running: dict[str, int], api_server: ApiServer) -> None:
    connection: Any = config.new_client_from_config(str(api_server.kubeconfig))  # type: ignore[no-untyped-call]
    service: Any = client.CoreV1Api(connection).read_namespaced_service("kubernetes", "default")
    assert wait_for("kubernetes.default.svc.cluster.local", running["dns"]) == service.spec.cluster_ip
    assert address_of("nothing.default.svc.cluster.local", running["dns"]) is None


@pytest.mark.apiserver
def test_a_replica_has_the_name_of_its_headless_service(
    running: dict[str, int], api_server: ApiServer
) -> None:
    connection: Any = config.new_client_from_config(str(api_server.kubeconfig))  # type: ignore[no-untyped-call]
    core, discovery = client.CoreV1Api(connection), client.DiscoveryV1Api(connection)
    metadata: dict[str, Any] = {"name": "named-master-0"}
    service: Any = {"metadata": metadata, "spec": {"clusterIP": "None", "ports": [{"port": 23456}]}}
    core.create_namespaced_service("default", service)
    labels = {"kubernetes.io/service-name": metadata["name"]}
    slices: Any = {
        "metadata": {**metadata, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [POD_ADDRESS], "conditions": {"ready": True}}],
        "ports": [{"name": "", "port": 23456, "protocol": "TCP"}],
    }
    try:
        discovery.create_namespaced_endpoint_slice("default", slices)
        assert wait_for("named-master-0.default.svc.cluster.local", running["dns"]) == POD_ADDRESS
    finally:
        core.delete_namespaced_service(metadata["name"], "default")
        discovery.delete_collection_namespaced_endpoint_slice(
            "default", label_selector="kubernetes.io/service-name=named-master-0"
        )


@pytest.mark.apiserver
def test_other_names_are_asked_for_elsewhere(running: dict[str, int]) -> None:
    assert address_of("registry.example", running["dns"]) == UPSTREAM_ADDRESS


@pytest.mark.apiserver
def test_health_and_figures_are_told(running: dict[str, int]) -> None:
    assert fetched(running["health"], "health") == "OK"
    assert address_of("registry.example", running["dns"])  # there is no such figure before the first request
    wait_until(  # it is counted after the answer is sent
        "the request is counted",
        lambda: "coredns_dns_requests_total" in fetched(running["prometheus"], "metrics"),
        PATIENCE_S,
    )
