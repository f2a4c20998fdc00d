"""The stack's volumes, from its configuration."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pulumi

from infra.clusters.cluster import Cluster
from infra.clusters.kind.config import DATA, MODELS
from infra.config import ConfigError, Stack
from infra.config.cluster import ClusterKind
from infra.config.errors import paragraph
from infra.config.kept_runs import KeepRuns
from infra.config.storage_kinds import OUR_VOLUME, StorageKind
from infra.objects.labels import stack_labels
from infra.objects.manifest import register
from storage import manifests
from storage.component import Storage
from storage.manifests import Claim, Manifest, ProvisionedClaim, Volume

VOLUMES = "/var/lib/trainstack/volumes"
# No provisioner has this class.
NO_PROVISIONER = "manual"


def data_path(stack: Stack) -> str | None:
    """Where the data folder lies on the nodes; with kind it is always mounted there."""
    return DATA if stack.cluster.kind is ClusterKind.KIND else stack.storage.data_path


def host_path(stack: Stack) -> str:
    """The folder of the models on the nodes. By default no other volume of the cluster has it, as none has the name."""
    own = MODELS if stack.cluster.kind is ClusterKind.KIND else f"{VOLUMES}/{stack.volume}"
    return stack.storage.host_path or own


def in_old_folder(stack: Stack, folders: Collection[str]) -> Stack:
    """`stack` with its models where they are: volumes of release 0.1 share one folder. Nothing is moved.

    Raises ConfigError for keepRuns there: a run goes by its job's name, and two stacks may have one of the same name.

    Parameters:
        folders: those of the volumes that the state holds.
    """
    config = stack.storage
    can_be_there = stack.cluster.kind is not ClusterKind.KIND and config.kind is StorageKind.HOST_PATH
    is_there = config.host_path == MODELS or (not config.host_path and MODELS in folders)
    if can_be_there and is_there and config.keep_runs:
        raise ConfigError(_refusal_of_keep_runs(stack, config.keep_runs))
    if not can_be_there or not is_there or config.host_path:
        return stack
    pulumi.log.warn(
        f"the models of stack {stack.name} stay in {MODELS} on the node, as those of every stack of release 0.1: they "
        f"overwrite each other's files. To have a folder of its own, copy {MODELS} to {host_path(stack)} there, "
        f"and write `hostPath: {host_path(stack)}` below trainstack:storage in {stack.file}"
    )
    return replace(stack, storage=config.model_copy(update={"host_path": MODELS}))


def _refusal_of_keep_runs(stack: Stack, limits: KeepRuns) -> str:
    own = f"{VOLUMES}/{stack.volume}"
    return paragraph(
        stack.file,
        "trainstack:storage.keepRuns",
        limits.model_dump(exclude_none=True),
        f"nothing while the models are in {MODELS} on the node, the folder of every stack of release 0.1: runs of "
        "another stack's job of the same name would be removed",
        f"copy {MODELS} to {own} there, and write `hostPath: {own}` below trainstack:storage; or remove keepRuns",
    )


def models(stack: Stack) -> Claim:
    """The volume of the models: as much of it as is ours."""
    config, namespace = stack.storage, stack.cluster.namespace
    if config.kind is StorageKind.CLAIM:
        return Claim(claim=stack.claim, namespace=namespace)
    if config.kind is StorageKind.CLASS:
        return ProvisionedClaim(
            claim=stack.claim,
            namespace=namespace,
            request=config.request,
            access_mode=config.access_mode.value,
            storage_class=config.storage_class,
            owner=stack_labels(stack.name),
        )
    return Volume(
        name=stack.volume,
        claim=stack.claim,
        namespace=namespace,
        source=_source(stack),
        capacity=config.capacity,
        request=config.request,
        access_mode=config.access_mode.value,
        storage_class=config.storage_class,
        reclaim_policy=config.reclaim_policy.value,
        labels=config.labels,
        owner=stack_labels(stack.name),
        node=config.node if config.kind is StorageKind.HOST_PATH else None,
    )


def _source(stack: Stack) -> Manifest:
    config = stack.storage
    if config.kind is StorageKind.NFS:
        return manifests.nfs(str(config.nfs_server), str(config.nfs_path))
    return manifests.host_path(host_path(stack), "DirectoryOrCreate")


def data(stack: Stack) -> Volume | None:
    """The data folder as a volume of its own: Pod Security allows no hostPath in a pod.

    Where the models are in a folder on a node, their volume decides which node that is.
    """
    path, config = data_path(stack), stack.storage
    if path is None:
        return None
    name = f"trainstack-{stack.name}-data"
    return Volume(
        name=name,
        claim=name,
        namespace=stack.cluster.namespace,
        source=manifests.host_path(path),
        capacity="10Gi",
        request="1Gi",
        access_mode="ReadOnlyMany",
        storage_class=config.storage_class if config.kind in OUR_VOLUME else NO_PROVISIONER,
        reclaim_policy="Retain",
        labels={"type": "trainstack-data"},
        owner=stack_labels(stack.name),
        node=None if config.kind is StorageKind.HOST_PATH else config.node,
    )


def volumes(stack: Stack) -> list[Claim]:
    """The stack's volumes: of the models, and of the data where there is one."""
    return [volume for volume in (models(stack), data(stack)) if volume is not None]


def own_volumes(stack: Stack) -> list[Volume]:
    """Those of the stack's volumes that are PersistentVolumes of its own."""
    return [volume for volume in volumes(stack) if isinstance(volume, Volume)]


def provide(stack: Stack, cluster: Cluster, depends_on: list[pulumi.Resource]) -> Storage:
    """Register the volumes and their claims."""
    opts = cluster.options(cluster.provider, depends_on)
    return Storage(name=f"{stack.name}-storage", volumes=volumes(stack), register=register, opts=opts)
