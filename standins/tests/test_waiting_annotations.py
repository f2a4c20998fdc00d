"""Waits that annotations ask for, time-outs, cancelling, and the waits of deletions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from pulumi_standins.kubernetes import deletion
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.awaiting.rules import RULES
from pulumi_standins.kubernetes.awaiting.snapshot import Rule, Verdict
from pulumi_standins.kubernetes.errors import CancelledError, UnreachableError
from pulumi_standins.kubernetes.follow import follow
from pulumi_standins.kubernetes.objects import Kind

from standins.tests.driver import CallError, Driver
from standins.tests.meanwhile import meanwhile, merge_meanwhile
from standins.tests.samples import MERGE_PATCH, annotated, config_map, definition, obj, workload

pytestmark = pytest.mark.apiserver

CONFIG_MAP = Kind("", "v1", "ConfigMap")
DEPLOYMENT = Kind("apps", "v1", "Deployment")


@pytest.mark.parametrize(
    "wait_for",
    ["jsonpath={.data.state}=done", '["jsonpath={.data.state}=done", "jsonpath={.data.a}"]'],
)
def test_wait_for_waits_for_what_it_names(
    driver: Driver, client: ApiClient, namespace: str, wait_for: str
) -> None:
    merge_meanwhile(client, f"/api/v1/namespaces/{namespace}/configmaps/it", {"data": {"state": "done"}})
    made = driver.create(annotated(config_map(namespace, a="1"), waitFor=wait_for))
    assert made.outputs["data"]["state"] == "done"
    driver.delete(made)


def test_wait_for_understands_conditions(driver: Driver, client: ApiClient, namespace: str) -> None:
    group = f"{namespace}.example.com"
    with driver.made(definition(group), name="definition"):
        waited = annotated(obj(f"{group}/v1", "Thing", namespace), waitFor="condition=Done=False")
        status = {"status": {"conditions": [{"type": "Done", "status": "False"}]}}
        merge_meanwhile(client, f"/apis/{group}/v1/namespaces/{namespace}/things/it", status, after=2)
        made = driver.create(waited)
        assert made.outputs["status"] == status["status"]
        assert "Has no .status.conditions" in driver.log


def test_a_wait_for_that_meets_a_list_fails_at_its_time_out(driver: Driver, namespace: str) -> None:
    held = annotated(
        config_map(namespace), waitFor="jsonpath={.metadata.managedFields}=1", timeoutSeconds="2"
    )
    with pytest.raises(CallError, match="timed out") as failed:
        driver.create(held, timeout=0)
    assert any("has a non-primitive value" in reason for reason in failed.value.partial.reasons)


def test_a_wait_for_may_name_alternatives(driver: Driver, client: ApiClient, namespace: str) -> None:
    """The natural way to await the end of a job, whatever it is."""
    group = f"{namespace}.example.com"
    ended = 'jsonpath={.status.conditions[?(@.type=="Succeeded" || @.type=="Failed")].status}=True'
    status = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    with driver.made(definition(group), name="definition"):
        merge_meanwhile(client, f"/apis/{group}/v1/namespaces/{namespace}/things/it", status, after=2)
        made = driver.create(annotated(obj(f"{group}/v1", "Thing", namespace), waitFor=ended))
        assert made.outputs["status"] == status["status"]


def test_an_unreadable_wait_for_makes_nothing(driver: Driver, client: ApiClient, namespace: str) -> None:
    with pytest.raises(CallError, match="expected a"):
        driver.create(annotated(config_map(namespace), waitFor="whenever"))
    listing = client.list(CONFIG_MAP, namespace)
    assert "it" not in [item["metadata"]["name"] for item in listing["items"]]


def test_waiting_watches_and_does_not_poll(driver: Driver, namespace: str) -> None:
    client = driver.provider._client
    assert client is not None
    requests: list[str] = []
    original = client.transport.request

    def counted(method: str, path: str, **options: object) -> object:
        requests.append(f"{method} {path}")
        return original(method, path, **options)  # type: ignore[arg-type]

    client.transport.request = counted  # type: ignore[method-assign, assignment]
    with pytest.raises(CallError, match="timed out"):
        driver.create(workload("Deployment", namespace, "unschedulable"), timeout=4)
    listed = [request for request in requests if request.startswith("GET") and "/namespaces/" in request]
    assert len(listed) == len(set(listed)), f"each collection is listed once, then watched: {requests}"


def test_skip_await_does_not_wait(driver: Driver, namespace: str) -> None:
    never = annotated(workload("Deployment", namespace, "unschedulable"), skipAwait="true")
    made = driver.create(never)
    assert not made.outputs.get("status", {}).get("readyReplicas")


def test_the_annotation_sets_the_time_out_where_the_option_does_not(driver: Driver, namespace: str) -> None:
    never = annotated(workload("Deployment", namespace, "unschedulable"), timeoutSeconds="2")
    began = time.monotonic()
    with pytest.raises(CallError, match="timed out"):
        driver.create(never, timeout=0)
    assert time.monotonic() - began < 300, "the default of ten minutes was taken"


def test_a_refresh_reports_what_is_not_ready_and_keeps_it(driver: Driver, namespace: str) -> None:
    made = driver.create(annotated(workload("Deployment", namespace, "unschedulable"), skipAwait="true"))
    del made.inputs["metadata"]["annotations"]["pulumi.com/skipAwait"]
    with pytest.raises(CallError, match="Resource 'it' was created but failed to initialize") as unhealthy:
        driver.read(made)
    assert unhealthy.value.partial.id == made.id
    assert unhealthy.value.partial.HasField("inputs")


def test_cancelling_ends_a_wait_at_once_and_keeps_the_object(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    def cancel() -> None:
        client.get(DEPLOYMENT, namespace, "it")
        driver.provider.stop()

    meanwhile(cancel)
    with pytest.raises(CallError, match="was cancelled") as cancelled:
        driver.create(workload("Deployment", namespace, "unschedulable"), timeout=600)
    assert cancelled.value.partial.id == f"{namespace}/it"


@pytest.mark.parametrize("error", [CancelledError(), UnreachableError("away"), KeyError("status")], ids=type)
def test_whatever_ends_a_wait_the_object_stays_in_the_state(
    driver: Driver, namespace: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def judge(_: object) -> Verdict:
        raise error

    monkeypatch.setitem(RULES, "v1/ConfigMap", Rule(judge))
    with pytest.raises(CallError, match="cannot wait for 'it'") as failed:
        driver.create(config_map(namespace))
    assert failed.value.partial.id == f"{namespace}/it"


def test_a_deletion_that_is_held_names_the_finalizer_and_can_be_cancelled(
    driver_with: Callable[[], Driver], client: ApiClient, namespace: str
) -> None:
    driver, cancelled = driver_with(), driver_with()
    held = config_map(namespace)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    made = driver.create(held)
    with pytest.raises(CallError, match="timed out") as stuck:
        driver.delete(made, timeout=2)
    assert any("example.com/hold" in reason for reason in stuck.value.partial.reasons)
    threading.Timer(3.0, cancelled.provider.stop).start()
    with pytest.raises(CallError, match="was cancelled") as stopped:
        cancelled.delete(made, timeout=600)
    assert stopped.value.partial.id == made.id, "it is still there, so it stays in the state"
    path = f"/api/v1/namespaces/{namespace}/configmaps/it"
    release = {"metadata": {"finalizers": None}}
    client.transport.request("PATCH", path, body=release, content_type=MERGE_PATCH)
    driver.delete(made)


def test_what_is_gone_before_anybody_watches_is_seen_to_be_gone(client: ApiClient, namespace: str) -> None:
    """So it is when a server no longer knows the version from which a watch has to go on."""
    until = time.monotonic() + 10
    events = follow(client, CONFIG_MAP, namespace, until=until, cancelled=threading.Event(), name="nobody")
    assert next(events) == ("DELETED", {})


def test_a_deletion_is_waited_for_for_ten_minutes(
    driver: Driver, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the kind."""
    waited: list[float] = []
    monkeypatch.setattr(deletion, "_wait", lambda *given: waited.append(given[-1]))
    for kind in ("ConfigMap", "Secret", "ServiceAccount"):
        held = obj("v1", kind, namespace)
        held["metadata"]["finalizers"] = ["example.com/hold"]
        driver.delete(driver.create(held), timeout=0)
    assert waited == [600.0] * 3
