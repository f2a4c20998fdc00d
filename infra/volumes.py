"""The stack's volumes, from its configuration."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pulumi

from infra.clusters.cluster import Cluster
from infra.clusters.kind.config import DATA, MODELS
from infra.config import Stack
from infra.config.cluster import ClusterKind
from infra.objects.labels import stack_labels
from infra.objects.manifest import Manifest, Object, read_from, register
from storage.component import Storage
from storage.directory import NodeDirectory
from storage.manifests import Volume
from storage.preparation import job

VOLUMES = "/var/lib/trainstack/volumes"


def data_path(stack: Stack) -> str | None:
    """Where the data folder lies on the nodes; with kind it is always mounted there."""
    return DATA if stack.cluster.kind is ClusterKind.KIND else stack.storage.data_path


def host_path(stack: Stack) -> str:
    """The folder of the models on the nodes. By default no other volume of the cluster has it, as none has the name."""
    own = MODELS if stack.cluster.kind is ClusterKind.KIND else f"{VOLUMES}/{stack.volume}"
    return stack.storage.host_path or own


def in_old_folder(stack: Stack, folders: Collection[str]) -> Stack:
    """`stack` with its models where they are: volumes of release 0.1 share one folder. Nothing is moved.

    Parameters:
        folders: those of the volumes that the state holds.
    """
    if stack.cluster.kind is ClusterKind.KIND or stack.storage.host_path or MODELS not in folders:
        return stack
    pulumi.log.warn(
        f"the models of stack {stack.name} stay in {MODELS} on the node, as those of every stack of release 0.1: they "
        f"overwrite each other's files. To have a folder of its own, copy {MODELS} to {host_path(stack)} there, "
        f"and write `hostPath: {host_path(stack)}` below trainstack:storage in {stack.file}"
    )
    return replace(stack, storage=stack.storage.model_copy(update={"host_path": MODELS}))


def models(stack: Stack) -> Volume:
    """The volume of the models."""
    config = stack.storage
    return Volume(
        name=stack.volume,
        claim=stack.claim,
        namespace=stack.cluster.namespace,
        host_path=host_path(stack),
        capacity=config.capacity,
        request=config.request,
        access_mode=config.access_mode.value,
        storage_class=config.storage_class,
        reclaim_policy=config.reclaim_policy.value,
        labels=config.labels,
        owner=stack_labels(stack.name),
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
        owner=stack_labels(stack.name),
    )


def volumes(stack: Stack) -> list[Volume]:
    """The stack's volumes: of the models, and of the data where there is one."""
    return [volume for volume in (models(stack), data(stack)) if volume is not None]


def provide(stack: Stack, cluster: Cluster, depends_on: list[pulumi.Resource]) -> Storage:
    """Register the volumes and their claims."""
    opts = cluster.options(cluster.provider, depends_on)
    return Storage(name=f"{stack.name}-storage", volumes=volumes(stack), register=register, opts=opts)


def preparation(stack: Stack, image: str) -> Manifest:
    """The Job that prepares the folder where only Kubernetes reaches the node."""
    config = stack.storage
    return job(models(stack), image, config.owner, config.group, config.mode, tolerations(stack))


def tolerations(stack: Stack) -> list[dict[str, str]]:
    """What the jobs' pods tolerate: other pods that mount the volume have to get to the same node."""
    found = [each.manifest() for job in stack.jobs for each in job.tolerations]
    return [each for place, each in enumerate(found) if each not in found[:place]]


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
        "path": host_path(stack),
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
