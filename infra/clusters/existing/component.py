"""An existing cluster, reached by a kubeconfig. The stack neither creates nor deletes the cluster itself."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes
import yaml
from kubernetes.config import ConfigException

from infra import paths
from infra.clusters.cluster import TAKES_FIELDS_BACK, Cluster, ClusterProtocol, Props
from infra.clusters.existing import one_context
from infra.clusters.existing.kubeconfig import ensure_named, kubeconfig_path
from infra.config import Stack
from infra.config.cluster import ClusterConfig
from infra.objects.api import ApiAddress, api_client
from infra.objects.look import Look

# Used instead of a missing kubeconfig: the preview continues with a warning. It names no server, because a plugin may
# wait for a server that does not answer.
NOWHERE = yaml.safe_dump(
    {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": [], "current-context": ""}
)


class Existing(pulumi.ComponentResource):
    """A provider for the cluster of a kubeconfig."""

    def __init__(self, *, stack: Stack) -> None:
        super().__init__("trainstack:cluster:Existing", stack.name)
        path = kubeconfig_path(stack.cluster)
        used = one_context.text(path, stack.cluster.context) if path.exists() else NOWHERE
        secret = pulumi.Output.secret(used)
        provider = pulumi_kubernetes.Provider(
            stack.name,
            kubeconfig=secret,
            context=stack.cluster.context,
            enable_patch_force=TAKES_FIELDS_BACK,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.cluster = Cluster(
            provider=provider,
            kubeconfig=secret,
            kubeconfig_path=paths.portable(path) if stack.cluster.kubeconfig else None,
            context=stack.cluster.context,
            cluster_uid=stack.cluster.context or stack.name,
        )
        self.register_outputs({})


class ExistingClusters(ClusterProtocol):
    """Somebody else's clusters. Nothing proves that such a cluster no longer exists."""

    def is_gone(self, stack: Stack, is_preview: bool) -> bool:
        """True only in a preview whose kubeconfig names no server: a preview may run without the kubeconfig."""
        return is_preview and not _names_a_server(stack.cluster)

    def goes(self, props: Props) -> bool:
        return False

    def reach(self, stack: Stack, asked: Look, is_preview: bool) -> None:
        ensure_named(stack.file, stack.cluster, asked)

    def register(self, stack: Stack) -> Cluster:
        return Existing(stack=stack).cluster


def _names_a_server(cluster: ClusterConfig) -> bool:
    try:
        api_client(ApiAddress(str(kubeconfig_path(cluster)), cluster.context))
    except ConfigException:
        return False
    return True
