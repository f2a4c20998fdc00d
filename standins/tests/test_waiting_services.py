"""When Services count as ready."""

from __future__ import annotations

import time

import pytest
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.awaiting import services

from standins.tests.driver import CallError, Driver
from standins.tests.meanwhile import merge_meanwhile
from standins.tests.samples import annotated, pod, service

pytestmark = pytest.mark.apiserver

ADDRESS = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}


def give_address(client: ApiClient, path: str, *, after: float) -> None:
    """What a cloud's controller does, some seconds later."""
    merge_meanwhile(client, f"{path}/status", ADDRESS, after=after)


def test_a_service_is_ready_with_endpoints(driver: Driver, namespace: str) -> None:
    running = driver.create(pod(namespace, "run"), name="pod")
    made = driver.create(service(namespace))
    assert "Service initialization complete" in driver.log
    driver.delete(made)
    driver.delete(running)


@pytest.mark.parametrize(
    "spec", [{"clusterIP": "None"}, {"type": "ExternalName", "externalName": "example.com"}]
)
def test_services_that_direct_no_traffic_wait_for_nothing(
    driver: Driver, namespace: str, spec: dict[str, str]
) -> None:
    driver.delete(driver.create(service(namespace, "nobody", **spec), timeout=60))


def test_a_service_without_a_selector_is_ready_at_once(driver: Driver, namespace: str) -> None:
    without = service(namespace)
    del without["spec"]["selector"]
    made = driver.create(without, timeout=60)
    assert driver.read(made) is not None


def test_a_service_with_nobody_behind_it_is_ready_when_its_endpoints_have_settled(
    driver: Driver, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_SETTLE", 3.0)  # still more than _SETTLE_COMPLETE
    began = time.monotonic()
    made = driver.create(service(namespace, "nobody"))
    assert time.monotonic() - began >= services._SETTLE
    assert "[1/3] Finding Pods to direct traffic to" in driver.log
    assert driver.read(made) is not None


def test_a_service_whose_pods_are_never_ready_fails_at_its_time_out(
    driver: Driver, client: ApiClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_SETTLE", 1.0)
    driver.create(annotated(pod(namespace, "crash"), skipAwait="true"), name="pod")
    failed = driver.fail_to_create(service(namespace), "Service does not target any Pods")
    assert "timed out waiting to be Ready" in str(failed)
    other = annotated(service(namespace), skipAwait="true")
    other["metadata"]["name"] = "other"
    made = driver.create(other)
    del made.inputs["metadata"]["annotations"]
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    of_other = {"labelSelector": "kubernetes.io/service-name=other"}
    # A Service without slices has nobody behind it, and is ready.
    end = time.monotonic() + 60
    while not any(
        each.get("endpoints") for each in client.transport.request("GET", slices, query=of_other)["items"]
    ):
        assert time.monotonic() < end
        time.sleep(0.1)
    with pytest.raises(CallError, match="failed to initialize"):
        driver.read(made)


def test_a_load_balancer_needs_an_address(driver: Driver, client: ApiClient, namespace: str) -> None:
    running = driver.create(pod(namespace, "run"), name="pod")
    balanced = service(namespace, type="LoadBalancer")
    status = "[2/3] Attempting to allocate IP address to Service"
    driver.fail_to_create(balanced, status, "was not allocated an IP address")
    other = {**balanced, "metadata": {"name": "other", "namespace": namespace}}
    give_address(client, f"/api/v1/namespaces/{namespace}/services/other", after=1)
    made = driver.create(other)
    assert made.outputs["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.1"
    driver.delete(made)
    driver.delete(running)
