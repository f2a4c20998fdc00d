"""Where a stack's cluster is reached."""

from __future__ import annotations

from infra import paths
from infra.clusters.existing.kubeconfig import kubeconfig_path
from infra.config import Stack
from infra.config.cluster import ClusterConfig
from infra.objects.api import ApiAddress


def of_stack(stack: Stack) -> ApiAddress:
    """Where the stack's cluster is, or will be, reached."""
    return of_cluster(stack.cluster, stack.name)


def of_cluster(cluster: ClusterConfig, stack: str) -> ApiAddress:
    """Where the cluster of a stack is reached, of which only that section counts.

    Parameters:
        stack: the stack's name.
    """
    if cluster.kind.is_ours:
        return ApiAddress(str(paths.kubeconfig(cluster.name_for(stack))))
    return ApiAddress(str(kubeconfig_path(cluster)), cluster.context)
