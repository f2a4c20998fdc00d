"""MicroK8s as the stack's cluster."""

from __future__ import annotations

import shutil

import pulumi
import pulumi_kubernetes

from infra import paths
from infra.clusters import registries
from infra.clusters.cluster import TAKES_FIELDS_BACK, Cluster, ClusterProtocol, Props, Say
from infra.clusters.microk8s import commands, installation
from infra.clusters.microk8s.commands import IMPORT_IMAGE
from infra.clusters.microk8s.providers import MicroK8sInstallation
from infra.config import Stack
from infra.config.cluster import Addon
from infra.objects.look import Look
from infra.process import CommandError


class MicroK8s(pulumi.ComponentResource):
    """The installation and a provider for its objects. Objects are deleted one by one: the installation may stay."""

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
            # The add-on `registry` takes pushes. Without this add-on, an archive is imported.
            image_registry=registries.MICROK8S if Addon.REGISTRY in addons else None,
            image_import=IMPORT_IMAGE,
            connection=installation,
        )
        self.register_outputs({})


class MicroK8sClusters(ClusterProtocol):
    """MicroK8s on this machine. snapd says whether it still exists. We never remove somebody else's installation."""

    def is_gone(self, stack: Stack, is_preview: bool) -> bool:
        """True also without our kubeconfig file: it exists only after the installation."""
        return not paths.kubeconfig(stack.cluster_name).exists() or self.is_lost({})

    def is_lost(self, props: Props) -> bool:
        try:
            return bool(shutil.which("snap")) and not commands.installed()
        except CommandError:
            return False

    def goes(self, props: Props) -> bool:
        return bool(props.get("ours"))

    def reach(self, stack: Stack, asked: Look, is_preview: bool) -> None:
        installation.reach(stack.cluster_name, may_start=not is_preview)

    def register(self, stack: Stack) -> Cluster:
        return MicroK8s(stack=stack).cluster

    def owns(self, name: str) -> bool:
        return installation.is_ours(name)

    def repair(self, name: str, say: Say) -> None:
        installation.repair(name, say)

    def remove_unfinished(self, name: str, stack: str) -> None:
        """Forget the installation. One that no state has stays installed."""
        installation.forget(name)
