"""MicroK8s as the stack's cluster."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes

from infra import paths
from infra.clusters import registries
from infra.clusters.cluster import TAKES_FIELDS_BACK, Cluster
from infra.clusters.microk8s.commands import IMPORT_IMAGE
from infra.clusters.microk8s.providers import MicroK8sInstallation
from infra.config import Stack
from infra.config.cluster import Addon


class MicroK8s(pulumi.ComponentResource):
    """The installation and a provider for the objects in it. They are deleted one by one: it may stay."""

    def __init__(self, *, stack: Stack) -> None:
        super().__init__("trainstack:cluster:MicroK8s", stack.name)
        path = paths.portable(paths.kubeconfig(stack.cluster_name))
        addons = stack.cluster.addons
        props = {
            "name": stack.cluster_name,
            "channel": stack.cluster.channel,
            "addons": [addon.value for addon in addons],
        }
        child = pulumi.ResourceOptions(parent=self)
        installation = MicroK8sInstallation(stack.name, props, child)
        provider = pulumi_kubernetes.Provider(
            stack.name,
            kubeconfig=installation.kubeconfig,
            cluster_identifier=installation.instance,
            enable_patch_force=TAKES_FIELDS_BACK,
            opts=child,
        )
        self.cluster = Cluster(
            provider=provider,
            kubeconfig=installation.kubeconfig,
            kubeconfig_path=installation.instance.apply(lambda _: path),
            context=None,
            cluster_uid=installation.instance,
            # An archive is imported where the registry add-on is not there to take pushes.
            image_registry=registries.MICROK8S if Addon.REGISTRY in addons else None,
            image_import=IMPORT_IMAGE,
            connection=installation,
        )
        self.register_outputs({})
