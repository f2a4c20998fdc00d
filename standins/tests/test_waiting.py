"""When pods and what makes them count as ready, and what is said meanwhile."""

from __future__ import annotations

import copy

import pytest
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import ApiError
from pulumi_standins.kubernetes.objects import Kind

from standins.tests.driver import CallError, Driver
from standins.tests.samples import annotated, job, obj, pod, pod_template, workload

pytestmark = pytest.mark.apiserver


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_a_workload_is_ready_when_its_pods_are_and_again_after_an_update(
    driver: Driver, namespace: str, kind: str
) -> None:
    extra = {"serviceName": "it"} if kind == "StatefulSet" else {}
    wanted = workload(kind, namespace, **extra)
    made = driver.create(wanted)
    status = made.outputs["status"]
    assert (status.get("readyReplicas") or status.get("numberReady")) == 1
    wanted = copy.deepcopy(wanted)
    wanted["spec"]["template"]["spec"]["containers"][0]["image"] = "example/app:2"
    assert driver.plan(made, wanted).changes == {"spec.template.spec.containers[0].image": "UPDATE"}
    made = driver.update(made, wanted)
    status = made.outputs["status"]
    assert (status.get("updatedReplicas") or status.get("updatedNumberScheduled")) == 1
    assert status["observedGeneration"] == 2
    driver.delete(made)


def test_a_rollout_that_does_not_come_through_says_so(driver: Driver, namespace: str) -> None:
    made = driver.create(workload("Deployment", namespace))
    said = ("[ImagePullBackOff]", "Minimum number of Pods to consider the application live was not attained")
    for seconds in (3, 15, 60, 240):  # how soon the controllers act is a matter of the machine
        with pytest.raises(CallError, match="failed to fully initialize or become live") as stuck:
            driver.update(made, workload("Deployment", namespace, "pull"), timeout=seconds)
        reasons = list(stuck.value.partial.reasons)
        if all(any(part in reason for reason in reasons) for part in said):
            return
    pytest.fail(f"{said} should be in {reasons}")


@pytest.mark.parametrize("scaled", ["at its creation", "by an update"])
def test_a_deployment_without_replicas_is_ready_and_warned_of(
    driver: Driver, namespace: str, scaled: str
) -> None:
    warning = 'warning: Replicas scaled to 0 for Deployment "it"'
    nothing = workload("Deployment", namespace, replicas=0)
    if scaled == "at its creation":
        made = driver.create(nothing)
    else:
        made = driver.update(driver.create(workload("Deployment", namespace)), nothing)
    assert warning in driver.log
    driver.log.clear()
    assert driver.read(made) is not None
    assert warning in driver.log


def test_a_stateful_set_whose_pods_the_user_replaces_is_ready_after_an_update(
    driver: Driver, namespace: str
) -> None:
    wanted = workload("StatefulSet", namespace, serviceName="it", updateStrategy={"type": "OnDelete"})
    made = driver.create(wanted)
    for number in range(2, 12):
        wanted = copy.deepcopy(wanted)
        wanted["spec"]["template"]["spec"]["containers"][0]["image"] = f"example/app:{number}"
        made = driver.update(made, wanted)
        status = made.outputs["status"]
        # A controller that has not seen its own last revision yet takes the new one for the first.
        if status["currentRevision"] != status["updateRevision"]:
            break
    assert status["currentRevision"] != status["updateRevision"]
    assert driver.read(made) is not None


def test_a_warning_event_about_the_object_is_shown_at_once(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    """As Pod Security or a quota refuses the pods of a Job."""
    quota = obj("v1", "ResourceQuota", namespace, spec={"hard": {"pods": "0"}})
    driver.create(quota, name="quota")
    driver.fail_to_create(job(namespace, "succeed"), "FailedCreate: Error creating: pods")
    assert any(line.startswith("warning: FailedCreate: ") for line in driver.log)


def test_a_job_is_ready_when_complete(driver: Driver, namespace: str) -> None:
    made = driver.create(job(namespace, "succeed"))
    assert made.outputs["status"]["succeeded"] == 1
    driver.delete(made)


def test_a_failed_job_ends_the_wait_at_once_and_stays_in_the_state(driver: Driver, namespace: str) -> None:
    with pytest.raises(CallError, match="Resource 'it' was created but failed to initialize") as failed:
        driver.create(job(namespace, "fail", backoffLimit=0), timeout=600)
    assert not any("timed out" in reason for reason in failed.value.partial.reasons)
    assert failed.value.partial.id == f"{namespace}/it"
    assert any("BackoffLimitExceeded" in reason for reason in failed.value.partial.reasons)


def test_a_job_that_is_not_done_is_replaced_where_the_annotation_says_so(
    driver: Driver, namespace: str
) -> None:
    wanted = annotated(job(namespace, "unschedulable"), skipAwait="true", replaceUnready="true")
    made = driver.create(wanted)
    plan = driver.plan(made, wanted)
    assert (plan.action, plan.deletes_first) == ("replace", True)
    done = annotated(job(namespace, "succeed"), replaceUnready="true")
    done["metadata"]["name"] = "done"
    assert driver.plan(driver.create(done, name="done"), done).action == "same"


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
    failed = driver.fail_to_create(workload("Deployment", namespace, outcome), said)
    assert "'it' timed out waiting to be Ready" in str(failed)
    assert any(line.startswith("warning: ") and said in line for line in driver.log), driver.log
    reasons = list(failed.partial.reasons)
    assert any(said in reason for reason in reasons), reasons
    assert "Minimum number of live Pods was not attained" in reasons


def test_the_status_line_says_what_an_init_container_waits_for(driver: Driver, namespace: str) -> None:
    waiting = workload("Deployment", namespace)
    waiting["spec"]["template"] = pod_template(
        "init", initContainers=[{"name": "master", "image": "example/i:1"}]
    )
    driver.fail_to_create(waiting, "Init:0/1, waiting for master")


def test_a_pod_is_ready_by_its_conditions(driver: Driver, client: ApiClient, namespace: str) -> None:
    made = driver.create(pod(namespace, "run"))
    assert made.outputs["status"]["phase"] == "Running"
    driver.delete(made)
    with pytest.raises(ApiError, match="not found"):
        client.get(Kind("", "v1", "Pod"), namespace, "it")
    stuck = driver.fail_to_create(pod(namespace, "crash"), "[CrashLoopBackOff]")
    assert "timed out" in str(stuck)
    assert any("[CrashLoopBackOff]" in reason for reason in stuck.partial.reasons)
