"""The cluster that the stack trains on: one of our own, or one that is there."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes

TAKES_FIELDS_BACK = True
"""`enablePatchForce` of each provider: the stack file wins over whoever has set a field since.

Without it an update fails with a conflict wherever somebody has used `kubectl scale` or `kubectl edit`. Fields that the
program leaves out, or leaves to others by `ignoreChanges`, stay theirs. See docs/adr/0022.
"""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What the other components need to know of a cluster.

    Parameters:
        provider: for the objects in it.
        kubeconfig: text of the kubeconfig.
        kubeconfig_path: its file as `paths.portable` has it, known when the file is written; None for the usual one.
        context: the kubeconfig's context, None for its current one.
        cluster_uid: id of the cluster; one that is made anew has another.
        owner: the resource whose deletion takes all objects in the cluster with it; None for a cluster that outlives
        the stack.
        nodes: containers of a kind cluster's nodes.
        registry: container of a kind cluster's registry.
        registry_container: its id.
        image_registry: where other clusters pull images from that were built here.
        image_import: the command that takes an archive of `docker save`, where there is no such registry.
        connection: what has to be there before nodes can pull.
    """

    provider: pulumi_kubernetes.Provider
    kubeconfig: pulumi.Output[str]
    kubeconfig_path: pulumi.Input[str | None]
    context: str | None
    cluster_uid: pulumi.Input[str]
    owner: pulumi.Resource | None = None
    nodes: pulumi.Output[list[str]] | None = None
    registry: str | None = None
    registry_container: pulumi.Output[str] | None = None
    image_registry: str | None = None
    image_import: tuple[str, ...] | None = None
    connection: pulumi.Resource | None = None

    @property
    def pull_ready(self) -> list[pulumi.Resource]:
        """What has to be there before nodes can pull from the cluster's registry."""
        return [self.connection] if self.connection else []

    def options(
        self, parent: pulumi.Resource, depends_on: list[pulumi.Resource] | None = None
    ) -> pulumi.ResourceOptions:
        """Options of an object in this cluster."""
        return pulumi.ResourceOptions.merge(
            self.bound(parent, depends_on), pulumi.ResourceOptions(provider=self.provider)
        )

    def bound(
        self, parent: pulumi.Resource, depends_on: list[pulumi.Resource] | None = None
    ) -> pulumi.ResourceOptions:
        """Options of a dynamic resource that ends with this cluster."""
        return pulumi.ResourceOptions(parent=parent, deleted_with=self.owner, depends_on=depends_on or [])
