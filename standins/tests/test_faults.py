"""Servers that are busy, flaky or restarting."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pulumi_standins.kubernetes.cluster import MERGE_PATCH, Cluster
from pulumi_standins.kubernetes.objects import Kind

from standins.tests.apiserver import ApiServer
from standins.tests.conftest import cluster_of
from standins.tests.driver import CallError, Driver
from standins.tests.flaky import FlakyProxy, changed_config
from standins.tests.samples import annotated, config_map, definition

pytestmark = pytest.mark.apiserver


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


@pytest.mark.parametrize("before", [0, 1], ids=["taking over", "applying"])
@pytest.mark.parametrize("fault", [429, 503, "drop", "lose"])
def test_updates_are_tried_again(
    flaky: Driver, proxy: FlakyProxy, cluster: Cluster, namespace: str, fault: int | str, before: int
) -> None:
    """The first update of an object sends two patches: who owns its fields, then the change."""
    made = flaky.create(config_map(namespace, a="1"))
    wanted = config_map(namespace, a="1")
    wanted["metadata"]["labels"] = {"edited": "yes"}
    proxy.faults = {"PATCH": [*["pass"] * before, fault]}
    flaky.update(made, wanted)
    live = cluster.get(Kind("", "v1", "ConfigMap"), namespace, "it")
    assert live["metadata"]["labels"] == {"edited": "yes"}
    (entry,) = live["metadata"]["managedFields"]
    assert entry["manager"] == made.outputs["__fieldManager"], "and it has become the field's only owner"
    assert proxy.requests.count("PATCH") >= 3


@pytest.mark.parametrize("fault", [429, 503, "drop", "lose"])
def test_replaced_definitions_are_tried_again(
    flaky: Driver, proxy: FlakyProxy, namespace: str, fault: int | str
) -> None:
    wanted = definition(f"{namespace}.example.com")
    made = flaky.create(wanted)
    wanted["metadata"]["labels"] = {"edited": "yes"}
    proxy.faults = {"PUT": [fault]}
    assert flaky.update(made, wanted).outputs["metadata"]["labels"] == {"edited": "yes"}
    flaky.delete(made)


def test_a_server_that_stays_busy_is_given_up_with_its_own_words(
    flaky: Driver, proxy: FlakyProxy, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulumi_standins.kubernetes.transport._LONGEST_PAUSE", 0.01)
    proxy.faults = {"POST": [503] * 6}
    with pytest.raises(CallError, match="the server answered 503"):
        flaky.create(config_map(namespace))
    assert proxy.requests.count("POST") == 6


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
    waited = annotated(config_map(namespace), waitFor="jsonpath={.data.late}=yes")
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(driver.create(waited, timeout=90)))
    thread.start()
    time.sleep(2)
    api_server.stop_server()
    api_server.start_server()
    api_server.wait_until_ready(time.monotonic() + 60)
    path = f"/api/v1/namespaces/{namespace}/configmaps/it"
    cluster_of(api_server).transport.request(
        "PATCH", path, body={"data": {"late": "yes"}}, content_type=MERGE_PATCH
    )
    thread.join(timeout=60)
    assert result, "the wait ended with the restart"
    assert result[0].outputs["data"]["late"] == "yes"
