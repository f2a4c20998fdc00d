"""A kind cluster with its registry."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Mapping
from typing import cast

import pulumi
import pulumi_kubernetes

from infra import agreed, paths
from infra.clusters import registries, replacement
from infra.clusters.cluster import TAKES_FIELDS_BACK, Cluster
from infra.clusters.kind import old_objects, ownership
from infra.clusters.kind.config import MODELS, KindConfig
from infra.clusters.kind.providers import Connection, KindCluster, Registry, replaced_for
from infra.config import Stack
from infra.objects import stack_state

REGISTRY_IMAGE = "registry:3"


def kind_config(stack: Stack) -> KindConfig:
    """The cluster that the stack file asks for."""
    return KindConfig(
        name=stack.cluster_name,
        stack=stack.name,
        models_path=stack.storage.host_path or MODELS,
        workers=stack.cluster.workers,
        api_server_port=stack.cluster.api_server_port,
    )


def without_dependencies(output: pulumi.Output[str]) -> pulumi.Output[str]:
    """`output` without the note of the resource that it comes from.

    Before a cluster is replaced, Pulumi (3.246) asks whatever takes properties of it whether it has to be replaced,
    too, and ends the plugin of a provider that says yes; then it wants the old objects deleted by that very plugin. A
    provider that seems to take nothing is asked later, when the new cluster is there. Its objects need no deleting:
    they went with the old one.
    """
    value = cast("Awaitable[str]", output.future(with_unknowns=True))
    return pulumi.Output(set(), value, output.is_known(), output.is_secret())


class Kind(pulumi.ComponentResource):
    """kind cluster, registry, the nodes' way to it, and a provider for the objects in it."""

    def __init__(self, *, stack: Stack, environment: Mapping[str, str] = os.environ) -> None:
        super().__init__("trainstack:cluster:Kind", stack.cluster_name)
        name = stack.cluster_name
        image = environment.get(agreed.NODE_IMAGE) or None
        child = pulumi.ResourceOptions(parent=self)
        kubeconfig_path = paths.portable(paths.kubeconfig(name))
        inputs = {"config": kind_config(stack).encode(), "image": image}
        held = stack_state.read()
        if held.kind_cluster and held.objects:
            reasons = replaced_for(dict(held.kind_cluster), inputs)
            old = KindConfig.decode(held.kind_cluster["config"]).name
            is_there = ownership.own_nodes(old, held.kind_cluster.get("instance"))
            if reasons and is_there and not pulumi.runtime.is_dry_run():
                # What would be lost comes before how to go on; the cluster's own diff says it once more to the user.
                replacement.ensure_allowed(old, stack.name, reasons, say=lambda _line: None)
            old_objects.ensure_they_may_go(name, reasons)
        cluster = KindCluster(name, inputs, child)
        # Pulumi tells the outputs of a resource once they are in the state.
        cluster.instance.apply(lambda uid: ownership.finish(name, uid))
        registry_image = environment.get(agreed.REGISTRY_IMAGE) or REGISTRY_IMAGE
        registry_name = registries.kind_name(name)
        registry = Registry(registry_name, {"name": registry_name, "image": registry_image}, child)
        link = {"registry": registry_name, "container": registry.container}
        connection = Connection(
            registry_name, {**link, "instance": cluster.instance, "nodes": cluster.nodes}, child
        )
        provider = pulumi_kubernetes.Provider(
            name,
            kubeconfig=without_dependencies(cluster.kubeconfig),
            cluster_identifier=without_dependencies(cluster.instance),
            enable_patch_force=TAKES_FIELDS_BACK,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[cluster]),
        )
        self.cluster = Cluster(
            provider=provider,
            kubeconfig=cluster.kubeconfig,
            # through the cluster's output, so that whoever reads the file comes after it was written
            kubeconfig_path=cluster.instance.apply(lambda _: kubeconfig_path),
            context=None,
            cluster_uid=cluster.instance,
            owner=cluster,
            nodes=cluster.nodes,
            registry=registry_name,
            registry_container=connection.container,
            connection=connection,
        )
        self.register_outputs({"kubeconfig": cluster.kubeconfig, "nodes": cluster.nodes})
