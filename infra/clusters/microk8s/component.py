"""MicroK8s as the stack's cluster."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes

from infra import paths
from infra.clusters.cluster import Cluster
from infra.clusters.microk8s.commands import REGISTRY
from infra.clusters.microk8s.providers import MicroK8sInstallation
from infra.config import Stack
from infra.config.cluster import Addon
from infra.image.inputs import REPOSITORY


def repository(stack: Stack) -> str | None:
    """Where images are pushed for it: its registry add-on; None where they are imported."""
    return f"{REGISTRY}/{REPOSITORY}" if Addon.REGISTRY in stack.cluster.addons else None


class MicroK8s(pulumi.ComponentResource):
    """The installation and a provider for the objects in it. They are deleted one by one: it may stay."""

    def __init__(self, *, stack: Stack) -> None:
        super().__init__("trainstack:cluster:MicroK8s", stack.name)
        path = str(paths.kubeconfig(stack.cluster_name))
        props = {
            "channel": stack.cluster.channel,
            "addons": [addon.value for addon in stack.cluster.addons],
            "marker": str(paths.marker(stack.cluster_name)),
            "kubeconfigPath": path,
        }
        child = pulumi.ResourceOptions(parent=self)
        installation = MicroK8sInstallation(stack.name, props, child)
        provider = pulumi_kubernetes.Provider(
            stack.name,
            kubeconfig=installation.kubeconfig,
            cluster_identifier=installation.instance,
            opts=child,
        )
        self.cluster = Cluster(
            provider=provider,
            kubeconfig=installation.kubeconfig,
            kubeconfig_path=installation.instance.apply(lambda _: path),
            context=None,
            instance=installation.instance,
            repository=repository(stack),
            imports=True,
            connection=installation,
        )
        self.register_outputs({})
