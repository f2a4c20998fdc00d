"""The address of a stack's cluster."""

from __future__ import annotations

from infra import paths
from infra.clusters.existing.kubeconfig import kubeconfig_path
from infra.config import Stack
from infra.config.cluster import ClusterConfig
from infra.objects.api import ApiAddress


def of_stack(stack: Stack) -> ApiAddress:
    """The address of the stack's cluster, which need not exist yet."""
    return of_cluster(stack.cluster, stack.name)


def of_cluster(cluster: ClusterConfig, stack: str) -> ApiAddress:
    """The address of a stack's cluster, by the section `cluster` of its file.

    Parameters:
        stack: the stack's name.
    """
    if cluster.kind.is_ours:
        return ApiAddress(str(paths.kubeconfig(cluster.name_for(stack))))
    return ApiAddress(str(kubeconfig_path(cluster)), cluster.context)
