"""The stack's volumes, from its configuration."""

from __future__ import annotations

import pulumi

from infra.clusters.cluster import Cluster
from infra.clusters.kind.config import DATA
from infra.config import Stack
from infra.config.cluster import ClusterKind
from infra.objects.labels import owned
from infra.objects.manifest import Manifest, Object, read_from, register
from storage.component import Storage
from storage.directory import NodeDirectory
from storage.manifests import Volume
from storage.preparation import job


def data_path(stack: Stack) -> str | None:
    """Where the data folder lies on the nodes; with kind it is always mounted there."""
    return DATA if stack.cluster.kind is ClusterKind.KIND else stack.storage.data_path


def models(stack: Stack) -> Volume:
    config = stack.storage
    return Volume(
        name=stack.volume,
        claim=stack.claim,
        namespace=stack.cluster.namespace,
        host_path=config.host_path,
        capacity=config.capacity,
        request=config.request,
        access_mode=config.access_mode.value,
        storage_class=config.storage_class,
        reclaim_policy=config.reclaim_policy.value,
        labels=config.labels,
        owner=owned(stack.name),
        host_path_type="DirectoryOrCreate",
        node=config.node,
    )


def data(stack: Stack) -> Volume | None:
    """The data folder as a volume of its own: Pod Security allows no hostPath in a pod."""
    path = data_path(stack)
    if path is None:
        return None
    name = f"trainstack-{stack.name}-data"
    return Volume(
        name=name,
        claim=name,
        namespace=stack.cluster.namespace,
        host_path=path,
        capacity="10Gi",
        request="1Gi",
        access_mode="ReadOnlyMany",
        storage_class=stack.storage.storage_class,
        reclaim_policy="Retain",
        labels={"type": "trainstack-data"},
        owner=owned(stack.name),
    )


def volumes(stack: Stack) -> list[Volume]:
    return [volume for volume in (models(stack), data(stack)) if volume is not None]


def provide(stack: Stack, cluster: Cluster, depends_on: list[pulumi.Resource]) -> Storage:
    """Register the volumes and their claims."""
    opts = cluster.options(cluster.provider, depends_on)
    return Storage(name=f"{stack.name}-storage", volumes=volumes(stack), register=register, opts=opts)


def preparation(stack: Stack, image: str) -> Manifest:
    """The Job that prepares the folder where only Kubernetes reaches the node."""
    config = stack.storage
    return job(models(stack), image, config.owner, config.group, config.mode)


def prepare(
    stack: Stack, cluster: Cluster, storage: Storage, image: pulumi.Output[str]
) -> list[pulumi.Resource]:
    """Have the models' folder made writable for the trainer; what pods that mount it have to wait for."""
    config = stack.storage
    if not config.prepare:
        return storage.ready
    if cluster.nodes is None:
        return [*storage.ready, _prepared_by_job(stack, cluster, storage, image)]
    props = {
        "node": cluster.nodes.apply(lambda nodes: nodes[0]),
        "instance": cluster.cluster_uid,
        "path": config.host_path,
        "owner": config.owner,
        "group": config.group,
        "mode": config.mode,
    }
    return [*storage.ready, NodeDirectory(stack.volume, props, cluster.bound(cluster.provider))]


def _prepared_by_job(
    stack: Stack, cluster: Cluster, storage: Storage, image: pulumi.Output[str]
) -> pulumi.Resource:
    held = read_from(storage.claims[0], "")
    wanted = pulumi.Output.all(image, held).apply(lambda known: preparation(stack, known[0]))
    replaced = pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)
    opts = pulumi.ResourceOptions.merge(cluster.options(cluster.provider, storage.ready), replaced)
    name = f"Job/{stack.cluster.namespace}/{stack.claim}-prepare"
    return Object(name, wanted, api_version="batch/v1", kind="Job", opts=opts)
