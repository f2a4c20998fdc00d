"""The quota and the limit range of the jobs' namespace."""

from __future__ import annotations

from decimal import Decimal

from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.names import quantity
from infra.config.resources import GPU
from infra.objects.labels import stack_labels
from infra.objects.manifest import Manifest


def manifests(stack: Stack) -> list[Manifest]:
    """Those that the stack file asks for. Raises ConfigError where the stack's own jobs would exceed them."""
    quota, limit_range = stack.cluster.quota, stack.cluster.limit_range
    metadata = {
        "name": f"trainstack-{stack.name}",
        "namespace": stack.cluster.namespace,
        "labels": stack_labels(stack.name),
    }
    found: list[Manifest] = []
    if quota:
        ensure_quota(stack, quota.hard())
        found.append({"kind": "ResourceQuota", "spec": {"hard": quota.hard()}})
    if limit_range:
        ensure_ratio(stack, limit_range.memory_ratio)
        limits = [{"type": "Container", **limit_range.item()}]
        found.append({"kind": "LimitRange", "spec": {"limits": limits}})
    return [{"apiVersion": "v1", "metadata": metadata, **each} for each in found]


def ensure_quota(stack: Stack, hard: dict[str, str]) -> None:
    """Raises ConfigError for a quota that the stack's jobs exceed: their pods would never come."""
    used = dict.fromkeys(hard, Decimal(0))
    for job in stack.jobs:
        limits = job.resources.limits()
        wanted = {"limits.cpu": limits["cpu"], "limits.memory": limits["memory"], "pods": "1"}
        wanted[f"requests.{GPU}"] = limits.get(GPU, "0")
        for name in hard:
            used[name] += quantity(wanted[name]) * job.replicas.total
    keys = {"limits.cpu": "cpu", "limits.memory": "memory", f"requests.{GPU}": "gpu", "pods": "pods"}
    for name, limit in hard.items():
        if used[name] > quantity(limit):
            key = f"trainstack:cluster.quota.{keys[name]}"
            allowed = (
                f"at least what the replicas of the stack's jobs have together: {used[name].normalize():f}"
            )
            fix = "raise it, or lower the jobs' replicas or resources"
            raise ConfigError(paragraph(stack.file, key, limit, allowed, fix))


def ensure_ratio(stack: Stack, ratio: int | None) -> None:
    """Raises ConfigError for a ratio that a job's limit exceeds: its pods would be refused."""
    for job in stack.jobs if ratio else ():
        asked, limit = job.resources.requests.memory, job.resources.memory
        if ratio and quantity(limit) > quantity(asked) * ratio:
            key = "trainstack:cluster.limitRange.memoryRatio"
            allowed = (
                f"at least the ratio of job {job.name}, whose limit is {limit} and whose request {asked}"
            )
            fix = f"raise resources.requests.memory of job {job.name}, or the ratio"
            raise ConfigError(paragraph(stack.file, key, ratio, allowed, fix))
