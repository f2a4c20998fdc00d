"""Makes the folder of the models writable for the trainer, which is not root."""

from __future__ import annotations

import pulumi

from infra import volumes
from infra.clusters.cluster import Cluster
from infra.config import Stack
from infra.job import auxiliary_pods
from infra.objects.manifest import Manifest, Object, read_from
from storage.component import Storage
from storage.directory import NodeDirectory
from storage.manifests import PREPARES, manifests
from storage.preparation import job


def manifest(stack: Stack, image: str) -> Manifest:
    """The Job that prepares the folder where only Kubernetes reaches it."""
    config = stack.storage
    return job(
        volumes.models(stack),
        image,
        config.owner,
        config.group,
        config.mode,
        users(stack),
        auxiliary_pods.spec_fields(stack.jobs),
    )


def users(stack: Stack) -> list[int]:
    """User ids of the pods that write on the volume."""
    return sorted({job.user for job in stack.jobs})


def prepare(
    stack: Stack, cluster: Cluster, storage: Storage, image: pulumi.Output[str]
) -> list[pulumi.Resource]:
    """Make the models' folder writable for the trainer. Returns the resources that pods which mount it wait for."""
    config = stack.storage
    if not config.prepares:
        return storage.ready
    if stack.prepared_by_job or cluster.nodes is None:
        return [*storage.ready, _by_job(stack, cluster, storage, image)]
    props = {
        "node": cluster.nodes.apply(lambda nodes: nodes[0]),
        "instance": cluster.cluster_uid,
        "path": volumes.host_path(stack),
        "owner": config.owner,
        "group": config.group,
        "mode": config.mode,
        "users": users(stack),
    }
    return [*storage.ready, NodeDirectory(stack.volume, props, cluster.bound(cluster.provider))]


def _by_job(stack: Stack, cluster: Cluster, storage: Storage, image: pulumi.Output[str]) -> pulumi.Resource:
    own_claim = storage.claims[:1] if manifests(volumes.models(stack)) else []
    held = [read_from(claim, "") for claim in own_claim]
    wanted = pulumi.Output.all(image, *held).apply(lambda known: manifest(stack, known[0]))
    replaced = pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)
    opts = pulumi.ResourceOptions.merge(cluster.options(cluster.provider, storage.ready), replaced)
    name = f"Job/{stack.cluster.namespace}/{stack.claim}{PREPARES}"
    return Object(name, wanted, api_version="batch/v1", kind="Job", opts=opts)
