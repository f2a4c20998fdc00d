"""One API server with controllers and a played kubelet for the whole session; a fresh namespace for every test."""

from __future__ import annotations

import contextlib
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.provider_config import connect
from pulumi_standins.kubernetes.settings import Settings

from standins.tests.apiserver import REQUIRED, ApiServer
from standins.tests.driver import Driver
from standins.tests.flaky import FlakyProxy
from standins.tests.kubelet import Kubelet
from standins.tests.project import Project

# No example fails because a machine is slow.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

NEEDED = (*REQUIRED, "kube-controller-manager")


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A running API server with controllers."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.fail(f"not on PATH: {', '.join(missing)}", pytrace=False)
    server = ApiServer(tmp_path_factory.mktemp("apiserver"), controllers=True)
    server.start()
    kubelet = None
    try:
        kubelet = Kubelet(client_of(server), server.certificates)
        kubelet.start()
        yield server
    finally:
        if kubelet is not None:
            kubelet.stop()
        server.stop()


def client_of(server: ApiServer) -> ApiClient:
    """A connection of the tests' own."""
    connected = connect(Settings(kubeconfig=str(server.kubeconfig)), threading.Event(), print)
    assert connected.client is not None, connected.reason
    return connected.client


@pytest.fixture(scope="session")
def client(api_server: ApiServer) -> ApiClient:
    """The tests' own view of the cluster."""
    return client_of(api_server)


@pytest.fixture
def namespace(client: ApiClient) -> str:
    """A namespace that no other test uses; it goes with the server."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def driver(api_server: ApiServer) -> Iterator[Driver]:
    """The provider in this process, driven as the engine does."""
    with Driver(kubeconfig=str(api_server.kubeconfig)) as running:
        yield running


@pytest.fixture
def driver_with(api_server: ApiServer) -> Iterator[Callable[..., Driver]]:
    """Makes providers with arguments of their own; the cluster is the test's unless they name another."""
    with contextlib.ExitStack() as stack:

        def make(**arguments: str) -> Driver:
            return stack.enter_context(Driver(**{"kubeconfig": str(api_server.kubeconfig), **arguments}))

        yield make


@pytest.fixture(scope="session")
def unused_project(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A Pulumi project with a stack; tests get copies."""
    if shutil.which("pulumi") is None:
        pytest.fail("not on PATH: pulumi", pytrace=False)
    return Project(tmp_path_factory.mktemp("unused"), api_server.kubeconfig)


@pytest.fixture
def project(api_server: ApiServer, unused_project: Project, tmp_path: Path) -> Project:
    """A Pulumi project of its own, run by the real CLI with our plugins."""
    return Project(tmp_path, api_server.kubeconfig, like=unused_project)


@pytest.fixture
def proxy(api_server: ApiServer) -> Iterator[FlakyProxy]:
    """Stands between a client and the API server, and fails as a test says."""
    running = FlakyProxy(api_server)
    yield running
    running.close()
