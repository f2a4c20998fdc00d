"""What guards the jobs' namespace: the policy, quota and limit range, and a network policy for each job."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi

from infra.clusters.cluster import Cluster
from infra.config import Stack
from infra.guard import admission, job_network, namespace_limits
from infra.objects.manifest import Manifest, register


def manifests(stack: Stack, controllers: Iterable[Manifest] = ()) -> list[Manifest]:
    """Its objects, as a review renders them. Raises ConfigError where the stack's own pods would be refused by them.

    Parameters:
        controllers: the objects of the stack's own operator and scheduler.
    """
    limits = namespace_limits.manifests(stack, controllers)
    return [*admission.manifests(stack), *limits, *job_network.manifests(stack)]


def provide(stack: Stack, cluster: Cluster, namespaces: list[pulumi.Resource]) -> list[pulumi.Resource]:
    """Register its objects. Returns the resources that a job waits for.

    Parameters:
        namespaces: the stack's own, which come first.
    """
    opts = cluster.options(cluster.provider, namespaces)
    return [register(each, opts) for each in manifests(stack)]
