"""One API server with controllers, a played kubelet and a played operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config

from standins.tests.apiserver import ApiServer
from standins.tests.conftest import api_server  # noqa: F401 - a fixture
from standins.tests.kubelet import NODE
from tests.matrix.judging import job_specs
from tests.matrix.played_operator import PlayedOperator
from tests.matrix.project import AppliedProject, applied


@pytest.fixture(scope="session")
def operator(api_server: ApiServer) -> Iterator[PlayedOperator]:  # noqa: F811 - the fixture
    played = PlayedOperator(api_server.kubeconfig)
    played.start()
    yield played
    played.stop()


@pytest.fixture(scope="session")
def wanted(api_server: ApiServer) -> None:  # noqa: F811 - the fixture
    """What the entries ask of a cluster: GPUs, a priority class and a runtime class."""
    connection: Any = config.new_client_from_config(str(api_server.kubeconfig))  # type: ignore[no-untyped-call]
    gpus = {"nvidia.com/gpu": "8", "amd.com/gpu": "8"}
    client.CoreV1Api(connection).patch_node_status(NODE, {"status": {"capacity": gpus, "allocatable": gpus}})
    priority: Any = {"metadata": {"name": "high"}, "value": 1000}
    client.SchedulingV1Api(connection).create_priority_class(priority)
    runtime: Any = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
    client.NodeV1Api(connection).create_runtime_class(runtime)


@pytest.fixture(scope="module")
def project(
    api_server: ApiServer,  # noqa: F811 - the fixture
    operator: PlayedOperator,
    wanted: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[AppliedProject]:
    """A stack that is up, for all tests of a module: each leaves it as it was."""
    with applied(tmp_path_factory.mktemp("project"), api_server.kubeconfig) as made:
        made.up()
        made.settled()
        yield made
        made.stand()
        made.configured()
        assert job_specs(made.settled()) == made.job_specs()
