"""When Services and Ingresses count as ready."""

from __future__ import annotations

import pytest
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.awaiting import services

from standins.tests.driver import Driver, Object
from standins.tests.meanwhile import merge_meanwhile
from standins.tests.samples import obj, pod, service

pytestmark = pytest.mark.apiserver

ADDRESS = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}


def give_address(client: ApiClient, path: str, *, after: float) -> None:
    """What a cloud's controller or an ingress controller does, some seconds later."""
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


def test_a_service_without_pods_says_so(driver: Driver, namespace: str) -> None:
    driver.fail_to_create(service(namespace, "nobody"), "Service does not target any Pods")


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


def ingress(namespace: str, backend: str) -> Object:
    path = {"path": "/x", "pathType": "Prefix"}
    path["backend"] = {"service": {"name": backend, "port": {"number": 80}}}  # type: ignore[assignment]
    rule = {"host": "example.com", "http": {"paths": [path]}}
    return obj("networking.k8s.io/v1", "Ingress", namespace, spec={"rules": [rule]})


@pytest.mark.parametrize("spec", [{}, {"type": "ExternalName", "externalName": "example.com"}])
def test_an_ingress_is_ready_with_an_address_and_a_service(
    driver: Driver, client: ApiClient, namespace: str, spec: dict[str, str]
) -> None:
    client.create(service(namespace, "nobody", **spec))
    give_address(client, f"/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses/it", after=1)
    made = driver.create(ingress(namespace, "it"))
    assert made.outputs["status"] == ADDRESS["status"]
    assert "Ingress initialization complete" in driver.log
    assert not [line for line in driver.log if "No matching service" in line]
    assert driver.read(made) is not None
    driver.delete(made)


def test_an_ingress_says_what_it_lacks(driver: Driver, namespace: str) -> None:
    reasons = (
        "Ingress has at least one rule with an unavailable target endpoint.",
        "loadBalancer field was not updated",
        '"example.com/x" -> "nobody"',
    )
    failed = driver.fail_to_create(ingress(namespace, "nobody"), "[1/3] Finding a matching service", *reasons)
    assert "timed out" in str(failed)
    assert "[1/3] Finding a matching service for each Ingress path" in driver.log
    found = list(failed.partial.reasons)
    assert reasons[0] in found
    assert all(any(reason in each for each in found) for reason in reasons[1:])


def test_an_ingress_whose_service_does_not_come_is_warned_of_and_goes_on(
    driver: Driver, client: ApiClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the real plugin after 60 seconds, or 10 after the last change of any endpoints; here after 2."""
    monkeypatch.setattr(services, "_NO_ENDPOINTS", 2.0)
    give_address(client, f"/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses/it", after=0.5)
    made = driver.create(ingress(namespace, "nobody"))
    warning = 'warning: No matching service found for ingress rule: "example.com/x" -> "nobody"'
    assert warning in driver.log
    driver.delete(made)
