"""The stack's volumes, from its configuration."""

from __future__ import annotations

from collections.abc import Iterable

from infra.clusters.kind.config import DATA, MODELS
from infra.config import Stack
from infra.config.data_sets import DataSet
from infra.config.storage_kinds import OUR_VOLUME, StorageKind
from infra.objects.labels import stack_labels
from storage import manifests
from storage.manifests import Claim, Manifest, ProvisionedClaim, Volume

VOLUMES = "/var/lib/trainstack/volumes"
# A storage class without a provisioner.
NO_PROVISIONER = "manual"


def host_path(stack: Stack) -> str:
    """The folder of the models on the nodes.

    Without `storage.hostPath` it is MODELS on our own nodes. On other nodes it has the volume's name, which is unique
    in the cluster.
    """
    own = MODELS if stack.cluster.kind.has_our_nodes else f"{VOLUMES}/{stack.volume}"
    return stack.storage.host_path or own


def models(stack: Stack) -> Claim:
    """The models' volume and claim, or only the claim if the stack creates no volume."""
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


def data(stack: Stack) -> list[Volume]:
    """A volume for each folder and NFS export of the jobs' data: Pod Security allows no hostPath in a pod.

    If the models are in a folder on a node, their volume determines the node.
    """
    found = {
        each.volume(stack.name): each for job in stack.jobs for each in job.data or () if each.has_volume
    }
    return [_of_data(stack, name, each) for name, each in found.items()]


def _of_data(stack: Stack, name: str, given: DataSet) -> Volume:
    config = stack.storage
    on_all_nodes = config.kind is StorageKind.HOST_PATH or given.nfs is not None
    digest = name.rpartition("-")[2]
    return Volume(
        name=name,
        claim=name,
        namespace=stack.cluster.namespace,
        source=_data_source(stack, given),
        capacity="10Gi",
        request="1Gi",
        access_mode="ReadOnlyMany",
        storage_class=config.storage_class if config.kind in OUR_VOLUME else NO_PROVISIONER,
        reclaim_policy="Retain",
        # The claim selects its volume by the label `name`. A label's value has at most 63 characters.
        labels={"type": "trainstack-data", **({} if given.is_usual else {"name": f"data-{digest}"})},
        owner=stack_labels(stack.name),
        node=None if on_all_nodes else config.node,
    )


def _data_source(stack: Stack, given: DataSet) -> Manifest:
    if given.nfs:
        return manifests.nfs(given.nfs.server, given.nfs.path)
    if not stack.cluster.kind.has_our_nodes:
        return manifests.host_path(str(given.folder))
    below = "" if given.is_usual else f"/{given.below_data(stack.name)}"
    return manifests.host_path(f"{DATA}{below}")


def volumes(stack: Stack) -> list[Claim]:
    """The stack's volumes: for the models and for the data."""
    return [models(stack), *data(stack)]


def users(stack: Stack) -> list[int]:
    """User ids of the pods that write to the models' volume."""
    return sorted({job.user for job in stack.jobs})


def own_volumes(stack: Stack) -> list[Volume]:
    """The PersistentVolumes that the stack creates."""
    return [volume for volume in volumes(stack) if isinstance(volume, Volume)]


def pods_with_claim(claim: str, pods: Iterable[Manifest]) -> list[Manifest]:
    """The pods that mount the PersistentVolumeClaim of this name. `pods`: of the claim's namespace."""
    return [pod for pod in pods if claim in _claims(pod)]


def _claims(pod: Manifest) -> set[str]:
    sources = [each.get("persistentVolumeClaim") for each in pod["spec"].get("volumes") or []]
    return {source["claimName"] for source in sources if source}
