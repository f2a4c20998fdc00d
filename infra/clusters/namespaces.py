"""The namespaces that are ours to make."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi

from infra.clusters.cluster import Cluster
from infra.config import Stack
from infra.config.storage_kinds import StorageKind
from infra.objects.labels import stack_labels
from infra.objects.manifest import Manifest, register
from infra.objects.pod_security import namespace_labels


def manifest(stack: Stack, name: str) -> Manifest:
    """A namespace that enforces the stack's Pod Security level."""
    labels = {**stack_labels(stack.name), **namespace_labels(stack.cluster.pod_security.value)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def provide(stack: Stack, cluster: Cluster, names: Iterable[str]) -> list[pulumi.Resource]:
    """Register the namespaces `names`, and return them in that order.

    Pulumi never deletes the namespace of a claim whose files may go with it.
    """
    opts = cluster.options(cluster.provider)
    others_files = stack.storage.kind in (StorageKind.CLASS, StorageKind.CLAIM)
    kept = pulumi.ResourceOptions(retain_on_delete=others_files)
    of_claim = pulumi.ResourceOptions.merge(opts, kept)
    return [
        register(manifest(stack, name), of_claim if name == stack.cluster.namespace else opts)
        for name in names
    ]
