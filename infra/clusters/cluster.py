"""The cluster that the stack trains on: one of our own, or one that is there."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What the other components need to know of a cluster.

    `lifetime` is the resource whose deletion takes all objects in the cluster with it; None for one that stays.
    `instance` changes when the cluster is another one. `nodes` and `registry` are those of a kind
    cluster of ours. Images get to other clusters through `repository`, or are imported where `imports` is set.
    """

    provider: pulumi_kubernetes.Provider
    kubeconfig: pulumi.Output[str]
    kubeconfig_path: pulumi.Input[str | None]
    context: str | None
    instance: pulumi.Input[str]
    lifetime: pulumi.Resource | None = None
    nodes: pulumi.Output[list[str]] | None = None
    registry: str | None = None
    repository: str | None = None
    imports: bool = False
    registry_container: pulumi.Output[str] | None = None
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
        return pulumi.ResourceOptions(parent=parent, deleted_with=self.lifetime, depends_on=depends_on or [])
