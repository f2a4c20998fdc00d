"""Quota and limit range are what the stack file says, and never less than the stack's own jobs need."""

from __future__ import annotations

from typing import Any

import pytest

from infra.config import ConfigError
from infra.config.names import quantity
from infra.folder_preparation import manifest as preparation
from infra.guard import component, namespace_limits
from infra.objects.api import ApiAddress
from infra.run.reader_pod import MountedClaim
from infra.run.reader_pod import manifest as reader
from infra.training_operator import patches
from tests.unit.infra.samples import IMAGE, JOB, OVERLAY, stack

QUOTA = {"cpu": 4, "memory": "8Gi", "gpu": 2, "pods": 10}
GPU_JOB = {**JOB, "resources": {"cpu": 1, "memory": "2Gi", "gpu": 1}, "replicas": {"master": 1, "worker": 1}}


def test_nothing_is_limited_unasked() -> None:
    assert namespace_limits.manifests(stack()) == []


def test_they_are_as_the_stack_file_says() -> None:
    cluster = {"quota": QUOTA, "limitRange": {"cpu": 1, "memory": "1Gi", "memoryRatio": 4}}
    quota, limit_range = namespace_limits.manifests(stack(cluster=cluster))
    assert quota["spec"]["hard"] == {
        "limits.cpu": "4",
        "limits.memory": "8Gi",
        "requests.nvidia.com/gpu": "2",
        "pods": "10",
    }
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


def test_a_ratio_below_a_jobs_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"(?s)memoryRatio = 3.*limit is 2Gi and whose request 512Mi"):
        component.manifests(stack(cluster={"limitRange": {"memoryRatio": 3}}))


@pytest.mark.parametrize("section", ["quota", "limitRange"])
def test_an_empty_section_is_refused(section: str) -> None:
    with pytest.raises(ConfigError, match=f"cluster.{section}"):
        stack(cluster={section: {}})


def test_the_requests_of_our_own_pods_are_near_their_limits() -> None:
    """No ratio that a stack file allows refuses them."""
    known = stack(cluster={"kind": "existing"}, image={"reference": IMAGE})
    volume = MountedClaim(ApiAddress(None), "kubeflow", IMAGE, "models", "/models")
    deployment = next(each for each in OVERLAY if each["kind"] == "Deployment")
    operator = patches.deployment(deployment, None, patches.INIT_IMAGE)
    pods: list[Any] = [
        reader("reader", volume)["spec"],
        preparation(known, IMAGE)["spec"]["template"]["spec"],
        operator["spec"]["template"]["spec"],
    ]
    resources = [each["resources"] for pod in pods for each in pod["containers"]]
    lines = [
        line.split("memory: ")[1].rstrip("}")
        for line in patches.INIT_CONTAINER.splitlines()
        if "memory" in line
    ]
    resources.append({"limits": {"memory": lines[0]}, "requests": {"memory": lines[1]}})
    ratios = [quantity(each["limits"]["memory"]) / quantity(each["requests"]["memory"]) for each in resources]
    assert len(ratios) == 4
    assert max(ratios) <= 2
