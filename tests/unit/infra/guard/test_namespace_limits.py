"""Quota and limit range are what the stack file says, and never less than the stack's own jobs need."""

from __future__ import annotations

import re
from typing import Any

import pytest

from infra import stack_plan
from infra.config import ConfigError
from infra.config.names import quantity
from infra.guard import namespace_limits
from infra.objects.api import ApiAddress
from infra.review import folder
from infra.run.reader_pod import MountedClaim
from infra.run.reader_pod import manifest as reader
from infra.stack_plan import preparation
from infra.training_operator import patches
from infra.upstream import vendored
from tests.unit.infra.samples import IMAGE, JOB, OVERLAY, stack, upstreams

QUOTA = {"cpu": 4, "memory": "8Gi", "gpu": 2, "pods": 10}
GPU_JOB = {**JOB, "resources": {"cpu": 1, "memory": "2Gi", "gpu": 1}, "replicas": {"master": 1, "worker": 1}}


def test_nothing_is_limited_unasked() -> None:
    assert namespace_limits.manifests(stack()) == []


def test_they_are_as_the_stack_file_says() -> None:
    cluster = {"quota": QUOTA, "limitRange": {"cpu": 1, "memory": "1Gi", "memoryRatio": 4}}
    quota, limit_range = namespace_limits.manifests(stack(cluster=cluster))
    hard = {"limits.cpu": "4", "limits.memory": "8Gi", "requests.nvidia.com/gpu": "2", "pods": "10"}
    assert quota["spec"]["hard"] == hard
    defaults = {"cpu": "1", "memory": "1Gi"}
    ratio = {"maxLimitRequestRatio": {"memory": "4"}}
    assert limit_range["spec"]["limits"] == [
        {"type": "Container", "default": defaults, "defaultRequest": defaults, **ratio}
    ]
    assert {each["metadata"]["namespace"] for each in (quota, limit_range)} == {"kubeflow"}


@pytest.mark.parametrize(
    ("key", "too_little"), [("cpu", "1900m"), ("memory", "3Gi"), ("gpu", 1), ("pods", 1)]
)
def test_a_quota_below_the_stacks_own_jobs_is_refused(key: str, too_little: object) -> None:
    namespace_limits.manifests(stack(job=GPU_JOB, cluster={"quota": QUOTA}))
    with pytest.raises(ConfigError, match=rf"(?s)cluster.quota.{key}.*at least .*fix: raise it"):
        namespace_limits.manifests(stack(job=GPU_JOB, cluster={"quota": {**QUOTA, key: too_little}}))


def test_gpus_are_counted_by_the_names_that_the_jobs_have_for_them() -> None:
    resources = {"gpu": 2, "gpuResource": "amd.com/gpu"}
    other = {"name": "other", "resources": resources, "replicas": {"worker": 1}}
    jobs = [GPU_JOB, other]
    (quota,) = namespace_limits.manifests(stack(jobs=jobs, job=None, cluster={"quota": {"gpu": 4}}))
    assert quota["spec"]["hard"] == {"requests.amd.com/gpu": "4", "requests.nvidia.com/gpu": "4"}
    with pytest.raises(ConfigError, match=r"(?s)cluster.quota.gpu = '3'.*at least 4, the sum"):
        namespace_limits.manifests(stack(jobs=jobs, job=None, cluster={"quota": {"gpu": 3}}))


FIVE = {"cpu": 5, "memory": "5Gi", "pods": 5}
# What is left of a quota for two replicas that have 1 CPU and 2Gi each, beside a controller with the usual limits.
TOO_LITTLE = [("cpu", "2400m"), ("memory", "4200Mi"), ("pods", 2)]
ENOUGH = [("cpu", "2500m"), ("memory", "4608Mi"), ("pods", 3)]


@pytest.fixture
def overlay_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendored, "objects", upstreams)


@pytest.mark.usefixtures("overlay_of_samples")
@pytest.mark.parametrize("looked_at", ["preview", "review"])
@pytest.mark.parametrize(("key", "limit"), TOO_LITTLE)
def test_an_operator_in_the_jobs_namespace_counts(key: str, limit: object, looked_at: str) -> None:
    def objects(**operator: Any) -> Any:
        known = stack(cluster={"quota": {**FIVE, key: limit}}, operator=operator)
        if looked_at == "review":
            return folder.files(known)
        return stack_plan.of(known, stack_plan.reviewed(known))

    with pytest.raises(ConfigError, match=rf"(?s)cluster.quota.{key}.*controllers.*operator\.namespace"):
        objects()
    assert objects(namespace="training-operator"), "with one of its own it takes nothing from the jobs"


@pytest.mark.usefixtures("overlay_of_samples")
@pytest.mark.parametrize(("kind", "room"), [("kind", ENOUGH), ("existing", TOO_LITTLE)])
def test_room_for_both_is_enough_and_somebody_elses_operator_needs_none(
    kind: str, room: list[tuple[str, object]]
) -> None:
    for key, limit in room:
        image: dict[str, Any] = {"image": {"reference": IMAGE}} if kind == "existing" else {}
        known = stack(cluster={"kind": kind, "quota": {**FIVE, key: limit}}, **image)
        assert stack_plan.of(known, stack_plan.reviewed(known))


def controller(name: str, namespace: str, replicas: int = 1) -> Any:
    pod = {"containers": [{"name": name, "resources": {"limits": dict(patches.LIMITS)}}]}
    spec = {"replicas": replicas, "template": {"spec": pod}}
    return {"kind": "Deployment", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


@pytest.mark.parametrize(("number", "replicas"), [(2, 1), (4, 1), (1, 2)])
def test_each_pod_of_each_controller_counts(number: int, replicas: int) -> None:
    """Kubeflow Trainer has two."""
    both = [controller(f"c{place}", "kubeflow", replicas) for place in range(number)]
    pods = 2 + number * replicas
    namespace_limits.ensure_quota(stack(), {"pods": str(pods)}, both)
    namespace_limits.ensure_quota(stack(), {"pods": "2"}, [controller("c", "elsewhere")])
    with pytest.raises(ConfigError, match=f"at least {pods}, the sum"):
        namespace_limits.ensure_quota(stack(), {"pods": str(pods - 1)}, both)


def test_a_ratio_below_a_jobs_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"(?s)memoryRatio = 3.*limit is 2Gi, its request 512Mi"):
        namespace_limits.manifests(stack(cluster={"limitRange": {"memoryRatio": 3}}))


def test_the_requests_of_our_own_pods_are_near_their_limits() -> None:
    """No ratio that a stack file allows refuses them."""
    known = stack(cluster={"kind": "existing"}, image={"reference": IMAGE})
    volume = MountedClaim(ApiAddress(None), "kubeflow", IMAGE, "models", "/models")
    deployment = next(each for each in OVERLAY if each["kind"] == "Deployment")
    operator = patches.deployment(deployment)
    pods: list[Any] = [
        reader("reader", volume)["spec"],
        preparation(known, IMAGE)["spec"]["template"]["spec"],
        operator["spec"]["template"]["spec"],
    ]
    resources = [each["resources"] for pod in pods for each in pod["containers"]]
    limit, request = re.findall(r"memory: ([^}\n]+)", patches.INIT_CONTAINER)
    resources.append({"limits": {"memory": limit}, "requests": {"memory": request}})
    ratios = [quantity(each["limits"]["memory"]) / quantity(each["requests"]["memory"]) for each in resources]
    assert len(ratios) == 4
    assert max(ratios) <= 2
