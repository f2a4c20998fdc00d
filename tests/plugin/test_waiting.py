"""When objects count as ready, and what is said meanwhile: each rule against a real API server."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.plugin.driver import CallError, Driver
from toolchain.plugins.kubernetes.cluster import MERGE_PATCH, Cluster
from toolchain.plugins.kubernetes.objects import Kind

pytestmark = pytest.mark.apiserver

Object = dict[str, Any]


def pod_template(outcome: str = "run", **spec: Any) -> Object:
    return {
        "metadata": {"labels": {"app": "it"}, "annotations": {"test/outcome": outcome}},
        "spec": {"containers": [{"name": "c", "image": "example/app:1"}], **spec},
    }


def workload(kind: str, namespace: str, outcome: str = "run", **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "it", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "it"}}, "template": pod_template(outcome), **spec},
    }


def job(namespace: str, outcome: str, **spec: Any) -> Object:
    template = pod_template(outcome, restartPolicy="Never")
    metadata = {"name": "it", "namespace": namespace}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": template, **spec},
    }


def pod(namespace: str, outcome: str, **spec: Any) -> Object:
    template = pod_template(outcome, **spec)
    metadata = {**template["metadata"], "name": "it", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_a_workload_is_ready_when_its_pods_are(driver: Driver, namespace: str, kind: str) -> None:
    extra = {"serviceName": "it"} if kind == "StatefulSet" else {}
    made = driver.create(workload(kind, namespace, **extra))
    status = made.outputs["status"]
    assert (status.get("readyReplicas") or status.get("numberReady")) == 1
    driver.delete(made)


def test_a_job_is_ready_when_complete(driver: Driver, namespace: str) -> None:
    made = driver.create(job(namespace, "succeed"))
    assert made.outputs["status"]["succeeded"] == 1
    driver.delete(made)


def test_a_failed_job_ends_the_wait_at_once_and_stays_in_the_state(driver: Driver, namespace: str) -> None:
    began = time.monotonic()
    with pytest.raises(CallError, match="Resource 'it' was created but failed to initialize") as failed:
        driver.create(job(namespace, "fail", backoffLimit=0), timeout=60)
    assert time.monotonic() - began < 30
    assert failed.value.partial.id == f"{namespace}/it"
    assert any("BackoffLimitExceeded" in reason for reason in failed.value.partial.reasons)


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("pull", "[ImagePullBackOff] Back-off pulling image"),
        ("crash", "[CrashLoopBackOff] back-off 10s restarting failed container"),
        ("unschedulable", "[Unschedulable] 0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
    ],
)
def test_a_pod_that_cannot_start_is_reported_as_it_happens(
    driver: Driver, namespace: str, outcome: str, said: str
) -> None:
    with pytest.raises(CallError, match="'it' timed out waiting to be Ready") as failed:
        driver.create(workload("Deployment", namespace, outcome), timeout=3)
    assert any(line.startswith("warning: ") and said in line for line in driver.log), driver.log
    reasons = list(failed.value.partial.reasons)
    assert any(said in reason for reason in reasons), reasons
    assert "Minimum number of live Pods was not attained" in reasons


def test_the_status_line_says_what_an_init_container_waits_for(driver: Driver, namespace: str) -> None:
    template = pod_template("init", initContainers=[{"name": "master", "image": "example/init:1"}])
    waiting = {**workload("Deployment", namespace), "spec": {"selector": {"matchLabels": {"app": "it"}}}}
    waiting["spec"]["template"] = template
    with pytest.raises(CallError):
        driver.create(waiting, timeout=3)
    assert any("Init:0/1, waiting for master" in line for line in driver.log), driver.log


def test_a_pod_is_ready_by_its_conditions(driver: Driver, namespace: str) -> None:
    made = driver.create(pod(namespace, "run"))
    assert made.outputs["status"]["phase"] == "Running"
    driver.delete(made)


def test_a_service_is_ready_with_endpoints(driver: Driver, namespace: str) -> None:
    running = driver.create(pod(namespace, "run"), name="pod")
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "it", "namespace": namespace},
        "spec": {"selector": {"app": "it"}, "ports": [{"port": 80}]},
    }
    made = driver.create(service)
    assert "Service initialization complete" in driver.log
    driver.delete(made)
    driver.delete(running)


def test_a_service_without_pods_says_so(driver: Driver, namespace: str) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "it", "namespace": namespace},
        "spec": {"selector": {"app": "nobody"}, "ports": [{"port": 80}]},
    }
    with pytest.raises(CallError) as failed:
        driver.create(service, timeout=2)
    assert any("Service does not target any Pods" in reason for reason in failed.value.partial.reasons)


def test_a_claim_waits_for_its_volume_unless_its_class_waits_for_a_consumer(
    driver: Driver, namespace: str
) -> None:
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "it", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": f"none-{namespace}",
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }
    with pytest.raises(CallError, match="timed out"):
        driver.create(claim, timeout=2)
    assert any("storageclasses.storage.k8s.io" in line for line in driver.log)

    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": f"later-{namespace}"},
        "provisioner": "example.com/none",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    later = {**claim, "metadata": {"name": "later", "namespace": namespace}}
    later["spec"] = {**claim["spec"], "storageClassName": f"later-{namespace}"}
    with driver.made(storage_class):
        made = driver.create(later, timeout=20)
        assert made.outputs["status"]["phase"] == "Pending"


def test_custom_resources_follow_their_definition_at_once(driver: Driver, namespace: str) -> None:
    group = f"{namespace}.example.com"
    with driver.made(definition(group)):
        thing = {
            "apiVersion": f"{group}/v1",
            "kind": "Thing",
            "metadata": {"name": "it", "namespace": namespace},
        }
        began = time.monotonic()
        made = driver.create(thing)
        assert time.monotonic() - began < 5
        driver.delete(made)


def definition(group: str) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def config_map(namespace: str, **annotations: str) -> Object:
    metadata = {"name": "it", "namespace": namespace, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


@pytest.mark.parametrize(
    "annotation",
    ["jsonpath={.data.state}=done", '["jsonpath={.data.state}=done", "jsonpath={.data.a}"]'],
)
def test_wait_for_waits_for_what_it_names(
    driver: Driver, cluster: Cluster, namespace: str, annotation: str
) -> None:
    def finish() -> None:
        time.sleep(0.5)
        path = f"/api/v1/namespaces/{namespace}/configmaps/it"
        body = {"data": {"state": "done"}}
        cluster.transport.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    threading.Timer(0.5, finish).start()
    made = driver.create(config_map(namespace, **{"pulumi.com/waitFor": annotation}), timeout=20)
    assert made.outputs["data"]["state"] == "done"
    driver.delete(made)


def test_an_unreadable_wait_for_makes_nothing(driver: Driver, cluster: Cluster, namespace: str) -> None:
    with pytest.raises(CallError, match="expected a"):
        driver.create(config_map(namespace, **{"pulumi.com/waitFor": "whenever"}))
    listing = cluster.list(Kind("", "v1", "ConfigMap"), namespace)
    assert "it" not in [item["metadata"]["name"] for item in listing["items"]]


def test_skip_await_does_not_wait(driver: Driver, namespace: str) -> None:
    never = workload("Deployment", namespace, "unschedulable")
    never["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
    made = driver.create(never)
    assert not made.outputs.get("status", {}).get("readyReplicas")


def test_the_annotation_sets_the_time_out_where_the_option_does_not(driver: Driver, namespace: str) -> None:
    never = workload("Deployment", namespace, "unschedulable")
    never["metadata"]["annotations"] = {"pulumi.com/timeoutSeconds": "2"}
    began = time.monotonic()
    with pytest.raises(CallError, match="timed out"):
        driver.create(never, timeout=0)
    assert time.monotonic() - began < 10


def test_a_refresh_reports_what_is_not_ready_and_keeps_it(driver: Driver, namespace: str) -> None:
    never = workload("Deployment", namespace, "unschedulable")
    never["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
    made = driver.create(never)
    del made.inputs["metadata"]["annotations"]["pulumi.com/skipAwait"]
    with pytest.raises(CallError, match="Resource 'it' was created but failed to initialize") as unhealthy:
        driver.read(made)
    assert unhealthy.value.partial.id == made.id
    assert unhealthy.value.partial.HasField("inputs")


def test_cancelling_ends_a_wait_at_once_and_keeps_the_object(driver: Driver, namespace: str) -> None:
    threading.Timer(1.0, driver.provider.stop).start()
    began = time.monotonic()
    with pytest.raises(CallError, match="was cancelled") as cancelled:
        driver.create(workload("Deployment", namespace, "unschedulable"), timeout=60)
    assert time.monotonic() - began < 4
    assert cancelled.value.partial.id == f"{namespace}/it"


def test_a_deletion_that_is_held_names_the_finalizer(
    driver: Driver, cluster: Cluster, namespace: str
) -> None:
    held = config_map(namespace)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    made = driver.create(held)
    with pytest.raises(CallError, match="timed out") as stuck:
        driver.delete(made, timeout=2)
    assert any("example.com/hold" in reason for reason in stuck.value.partial.reasons)
    path = f"/api/v1/namespaces/{namespace}/configmaps/it"
    cluster.transport.request(
        "PATCH", path, body={"metadata": {"finalizers": None}}, content_type=MERGE_PATCH
    )
    driver.delete(made)
