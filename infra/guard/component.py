"""What holds everybody in the jobs' namespace to the rules."""

from __future__ import annotations

import pulumi

from infra.clusters.cluster import Cluster
from infra.config import Stack
from infra.guard import admission
from infra.objects.manifest import register


def provide(stack: Stack, cluster: Cluster, namespaces: list[pulumi.Resource]) -> list[pulumi.Resource]:
    """Register it; what a job has to wait for.

    Parameters:
        namespaces: the stack's own, which come first.
    """
    opts = cluster.options(cluster.provider, namespaces)
    return [register(each, opts) for each in admission.manifests(stack)]
