"""The quota and the limit range of the jobs' namespace."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from infra.config import Stack
from infra.config.errors import not_allowed
from infra.config.names import quantity
from infra.config.resources import counted
from infra.objects.labels import stack_labels
from infra.objects.manifest import Manifest


def manifests(stack: Stack, controllers: Iterable[Manifest] = ()) -> list[Manifest]:
    """The quota and limit range of the stack file. Raises ConfigError if the stack's own pods would exceed them.

    Parameters:
        controllers: the objects of the stack's own operator and of Kueue, which may run in the same namespace.
    """
    quota, limit_range = stack.cluster.quota, stack.cluster.limit_range
    metadata = {
        "name": f"trainstack-{stack.name}",
        "namespace": stack.cluster.namespace,
        "labels": stack_labels(stack.name),
    }
    found: list[Manifest] = []
    if quota:
        hard = quota.hard({job.resources.gpu_resource for job in stack.jobs})
        ensure_quota(stack, hard, controllers)
        found.append({"kind": "ResourceQuota", "spec": {"hard": hard}})
    if limit_range:
        ensure_ratio(stack, limit_range.memory_ratio)
        limits = [{"type": "Container", **limit_range.item()}]
        found.append({"kind": "LimitRange", "spec": {"limits": limits}})
    return [{"apiVersion": "v1", "metadata": metadata, **each} for each in found]


def ensure_quota(stack: Stack, hard: dict[str, str], controllers: Iterable[Manifest] = ()) -> None:
    """Raises ConfigError for a quota that the stack's jobs and controllers exceed: some pods would never be created.

    Parameters:
        hard: as in a ResourceQuota.
        controllers: as for `manifests`.
    """
    pods = [(job.resources.limits(), job.replicas.total) for job in stack.jobs]
    beside = [_pods_of(each) for each in controllers if _is_in(each, stack.cluster.namespace)]
    used = dict.fromkeys(hard, Decimal(0))
    for limits, number in [*pods, *beside]:
        wanted = {"limits.cpu": limits["cpu"], "limits.memory": limits["memory"], "pods": "1"}
        wanted |= {f"requests.{name}": value for name, value in counted(limits).items()}
        for name in hard:
            used[name] += quantity(wanted.get(name, "0")) * number
    keys = {"limits.cpu": "cpu", "limits.memory": "memory", "pods": "pods"}
    for name, limit in hard.items():
        if used[name] > quantity(limit):
            key = f"trainstack:cluster.quota.{keys.get(name, 'gpu')}"
            whose = "the replicas of the stack's jobs" + (" and its controllers" if beside else "")
            elsewhere = ", or give the controllers another namespace (operator.namespace)"
            fix = f"raise it, or lower the jobs' replicas or resources{elsewhere if beside else ''}"
            allowed = f"at least {used[name].normalize():f}, the sum of {whose}"
            raise not_allowed(stack.file, key, limit, allowed, fix)


def _is_in(controller: Manifest, namespace: str) -> bool:
    return bool(controller["kind"] == "Deployment" and controller["metadata"]["namespace"] == namespace)


def _pods_of(controller: Manifest) -> tuple[dict[str, str], int]:
    """The limits of one pod of `controller`, and the number of its pods."""
    (program,) = controller["spec"]["template"]["spec"]["containers"]
    return program["resources"]["limits"], controller["spec"].get("replicas", 1)


def ensure_ratio(stack: Stack, ratio: int | None) -> None:
    """Raises ConfigError for a ratio that a job exceeds: its pods would be refused."""
    for job in stack.jobs if ratio else ():
        asked, limit = job.resources.requests.memory, job.resources.memory
        if ratio and quantity(limit) > quantity(asked) * ratio:
            key = "trainstack:cluster.limitRange.memoryRatio"
            allowed = f"at least limit / request of job {job.name}: its limit is {limit}, its request {asked}"
            fix = f"raise resources.requests.memory of job {job.name}, or the ratio"
            raise not_allowed(stack.file, key, ratio, allowed, fix)
