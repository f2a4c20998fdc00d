"""The stack's volumes, from its configuration."""

from __future__ import annotations

from infra.clusters.kind.config import DATA, MODELS
from infra.config import Stack
from infra.config.storage_kinds import OUR_VOLUME, StorageKind
from infra.objects.labels import stack_labels
from storage import manifests
from storage.manifests import Claim, Manifest, ProvisionedClaim, Volume

VOLUMES = "/var/lib/trainstack/volumes"
# No provisioner has this class.
NO_PROVISIONER = "manual"


def data_path(stack: Stack) -> str | None:
    """Where the data folder lies on the nodes; with kind it is always mounted there."""
    return DATA if stack.cluster.kind.has_our_nodes else stack.storage.data_path


def host_path(stack: Stack) -> str:
    """The folder of the models on the nodes; by default its name is the volume's, which is unique in the cluster."""
    own = MODELS if stack.cluster.kind.has_our_nodes else f"{VOLUMES}/{stack.volume}"
    return stack.storage.host_path or own


def models(stack: Stack) -> Claim:
    """The models' volume and claim, as far as the stack makes them."""
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
