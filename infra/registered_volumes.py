"""Registers the stack's volumes, with the models where they are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pulumi

from infra import volumes
from infra.clusters.cluster import Cluster
from infra.clusters.kind.config import MODELS
from infra.config import ConfigError, Stack
from infra.config.cluster import ClusterKind
from infra.config.errors import paragraph
from infra.config.kept_runs import KeepRuns
from infra.config.storage_kinds import StorageKind
from infra.objects.manifest import register
from storage.component import Storage


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
    own = volumes.host_path(stack)
    pulumi.log.warn(
        f"the models of stack {stack.name} stay in {MODELS} on the node, as those of every stack of release 0.1: they "
        f"overwrite each other's files. To have a folder of its own, copy {MODELS} to {own} there, "
        f"and write `hostPath: {own}` below trainstack:storage in {stack.file}"
    )
    return replace(stack, storage=config.model_copy(update={"host_path": MODELS}))


def _refusal_of_keep_runs(stack: Stack, limits: KeepRuns) -> str:
    own = f"{volumes.VOLUMES}/{stack.volume}"
    return paragraph(
        stack.file,
        "trainstack:storage.keepRuns",
        limits.model_dump(exclude_none=True),
        f"nothing while the models are in {MODELS} on the node, the folder of every stack of release 0.1: runs of "
        "another stack's job of the same name would be removed",
        f"copy {MODELS} to {own} there, and write `hostPath: {own}` below trainstack:storage; or remove keepRuns",
    )


def provide(stack: Stack, cluster: Cluster, depends_on: list[pulumi.Resource]) -> Storage:
    """Register the volumes and their claims."""
    opts = cluster.options(cluster.provider, depends_on)
    return Storage(name=f"{stack.name}-storage", volumes=volumes.volumes(stack), register=register, opts=opts)
