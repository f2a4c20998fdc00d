"""When volumes, claims, definitions and the kinds that need a field filled in count as ready."""

from __future__ import annotations

import pytest

from standins.tests.driver import CallError, Driver, Object
from standins.tests.samples import definition, obj

pytestmark = pytest.mark.apiserver


def claim(namespace: str, storage_class: str, **spec: Object) -> Object:
    resources = {"requests": {"storage": "1Mi"}}
    whole = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": resources,
        **spec,
    }
    return obj("v1", "PersistentVolumeClaim", namespace, spec=whole)


def volume(name: str) -> Object:
    made = obj(
        "v1",
        "PersistentVolume",
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "hostPath": {"path": "/none"},
        },
    )
    return {**made, "metadata": {"name": name, "labels": {"volume": name}}}


def test_a_volume_is_ready_when_available_and_a_claim_when_bound(driver: Driver, namespace: str) -> None:
    made = driver.create(volume(namespace), name="volume")
    assert made.outputs["status"]["phase"] == "Available"
    assert "✅ PV marked available" in driver.log
    bound = driver.create(claim(namespace, namespace, selector={"matchLabels": {"volume": namespace}}))
    assert bound.outputs["spec"]["volumeName"] == namespace
    driver.delete(bound)
    driver.delete(made)


def test_a_claim_that_finds_no_volume_says_why(driver: Driver, namespace: str) -> None:
    failed = driver.fail_to_create(claim(namespace, f"none-{namespace}"), "storageclasses.storage.k8s.io")
    assert "timed out" in str(failed)


def test_a_claim_whose_class_waits_for_a_consumer_only_has_to_be_pending(
    driver: Driver, namespace: str
) -> None:
    storage_class = obj(
        "storage.k8s.io/v1",
        "StorageClass",
        provisioner="example.com/none",
        volumeBindingMode="WaitForFirstConsumer",
    )
    storage_class["metadata"] = {"name": f"later-{namespace}"}
    with driver.made(storage_class, name="class"):
        made = driver.create(claim(namespace, f"later-{namespace}"))
        assert made.outputs["status"]["phase"] == "Pending"


def test_custom_resources_follow_their_definition(driver: Driver, namespace: str) -> None:
    group = f"{namespace}.example.com"
    with driver.made(definition(group), name="definition"):
        driver.create(obj(f"{group}/v1", "Thing", namespace))


def test_a_definition_whose_names_are_taken_ends_the_wait(driver: Driver, namespace: str) -> None:
    group = f"{namespace}.example.com"
    other = definition(group)
    other["metadata"]["name"] = f"objects.{group}"
    other["spec"]["names"] |= {"plural": "objects", "singular": "object"}
    with driver.made(definition(group), name="definition"):
        with pytest.raises(CallError, match="failed to initialize") as refused:
            driver.create(other, name="other")
        assert any("is already in use" in reason for reason in refused.value.partial.reasons)


def test_a_quota_is_ready_when_its_controller_has_seen_it(driver: Driver, namespace: str) -> None:
    made = driver.create(obj("v1", "ResourceQuota", namespace, spec={"hard": {"pods": "10"}}))
    assert made.outputs["status"]["hard"] == {"pods": "10"}


def test_the_secret_of_a_service_account_is_ready_with_its_token(driver: Driver, namespace: str) -> None:
    driver.create(obj("v1", "ServiceAccount", namespace), name="account")
    secret = obj("v1", "Secret", namespace, type="kubernetes.io/service-account-token")
    secret["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "it"}
    made = driver.create(secret, name="token")
    assert made.outputs["data"].value["token"]
    assert driver.plan(made, secret).action == "same", "what the controller fills in is no difference"
