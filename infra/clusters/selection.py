"""Chooses the cluster component, and looks at a cluster before anything is registered."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import pulumi
from kubernetes.config import ConfigException

from infra import docker, paths
from infra.clusters import addresses, replacement
from infra.clusters.cluster import Cluster
from infra.clusters.discovery import ClusterContents, IsOurs, Question, read_contents
from infra.clusters.existing.component import Existing
from infra.clusters.existing.kubeconfig import ensure_named
from infra.clusters.kind import ownership, repair
from infra.clusters.kind.component import Kind
from infra.clusters.kind.config import KindConfig
from infra.clusters.kind.ownership import Standing
from infra.clusters.microk8s import commands, installation
from infra.clusters.microk8s.component import MicroK8s
from infra.clusters.microk8s.providers import cluster_name
from infra.clusters.node_folders import ensure_one_folder
from infra.config import ConfigError, Stack
from infra.config.cluster import ClusterKind
from infra.config.errors import paragraph
from infra.config.names import quantity
from infra.config.operator import KUEUE_NAMESPACE, Install, Queueing
from infra.config.resources import counted
from infra.config.storage_kinds import StorageKind
from infra.objects.api import ApiAddress, api_client
from infra.objects.job_kinds import OF_API
from infra.objects.look import Look
from infra.objects.stack_state import StackState
from infra.process import CommandError


def look(stack: Stack) -> Look:
    """How the guards of this update or preview ask the stack's cluster."""
    return Look(addresses.of_stack(stack), pulumi.log.info, lambda: _is_gone(stack))


def _is_gone(stack: Stack) -> bool:
    """Whether a cluster that does not answer is proved gone. An update starts a kind cluster that is stopped.

    Before a cluster of ours is made, it has no kubeconfig. After that the container engine has to say that it is gone,
    of MicroK8s snapd; of a user's cluster nobody can. A preview may lack the kubeconfig of that one.
    """
    address, is_preview = addresses.of_stack(stack), pulumi.runtime.is_dry_run()
    if stack.cluster.kind is ClusterKind.EXISTING:
        return is_preview and not _names_a_server(address)
    if not address.is_there:
        return True
    try:
        if stack.cluster.kind is ClusterKind.KIND:
            if ownership.standing(stack.cluster_name) in (
                Standing.NONE,
                Standing.UNFINISHED,
                Standing.REMAINS,
            ):
                return True
            if not is_preview:
                repair.repair(stack.cluster_name, pulumi.log.info)
            return False
        return bool(shutil.which("snap")) and not commands.installed()
    except (CommandError, docker.EngineError, repair.NotReadyError):
        return False


def _names_a_server(address: ApiAddress) -> bool:
    try:
        api_client(address)
    except ConfigException:
        return False
    return True


def examine(stack: Stack, is_ours: IsOurs, asked: Look) -> ClusterContents:
    """What the cluster holds now. Raises ConfigError when it cannot run the stack's jobs, and UnknownError.

    Of our own kind cluster everything in it is ours; it is only asked where GPUs or the like are wanted.
    """
    own = stack.cluster.kind is ClusterKind.KIND
    if stack.cluster.kind is ClusterKind.EXISTING:
        ensure_named(stack.file, stack.cluster, asked)
    wanted = any(counted(job.resources.limits()) for job in stack.jobs)
    if own and not (wanted and paths.kubeconfig(stack.cluster_name).exists()):
        return ClusterContents()
    if stack.cluster.kind is ClusterKind.MICROK8S:
        installation.reach(stack.cluster_name, may_start=not pulumi.runtime.is_dry_run())
    found = read_contents(asked, is_ours, question(stack, is_ours))
    if not asked.is_there:
        found = ClusterContents(
            problem=f"the cluster of stack {stack.name} is not there: nobody was asked what it holds"
        )
        pulumi.log.warn(found.problem)
    elif found.offered is not None:
        ensure_offered(stack, found.offered)
    if own:
        return ClusterContents(problem=found.problem)
    ensure_one_folder(stack, found.nodes)
    if _is_given(stack, is_ours):
        return replace(found, namespaces=found.namespaces | {stack.cluster.namespace})
    return found


def question(stack: Stack, is_ours: IsOurs) -> Question:
    """What to ask the stack's cluster.

    With a claim, an image and an operator given, others' objects need not be listed.
    """
    installs = stack.operator.install is not Install.NEVER
    kueue, quota = stack.operator.queue is Queueing.KUEUE, stack.cluster.queue
    has_policy = any(job.run_policy.scheduling_policy for job in stack.jobs)
    spaces = [stack.operator.namespace, *([KUEUE_NAMESPACE] if kueue else [])]
    asked = {stack.cluster.namespace, *(spaces if installs else [])}
    given = {stack.cluster.namespace} if _is_given(stack, is_ours) else set()
    return Question(
        namespaces=frozenset(asked - given),
        operator=installs or has_policy,
        nodes=stack.has_folder or any(counted(job.resources.limits()) for job in stack.jobs),
        kind=OF_API[stack.operator.api],
        kueue=kueue,
        shared=frozenset(quota.shared if quota else ()),
    )


def _is_given(stack: Stack, is_ours: IsOurs) -> bool:
    """Whether the jobs' namespace is there: it has the claim of the models, and the stack did not make it."""
    namespace = {"kind": "Namespace", "metadata": {"name": stack.cluster.namespace}}
    return stack.storage.kind is StorageKind.CLAIM and not is_ours(namespace)


def ensure_old_cluster_may_go(stack: Stack, held: StackState) -> None:
    """Say what a stack loses that leaves its own cluster for one of another kind or name: Pulumi deletes the old one.

    Where kind and name stay, the cluster's resource asks when it is replaced. Raises ReplacementRefusedError, before
    anything is touched, where others' objects are in the old cluster.

    Parameters:
        held: what the stack's state holds.
    """
    name, reason = _left_cluster(stack, held)
    if name:
        replacement.ensure_allowed(name, stack.name, [reason], pulumi.log.warn)


def _left_cluster(stack: Stack, held: StackState) -> tuple[str, str]:
    """Name of the cluster that the next update deletes, and the key that says so; empty where there is none."""
    kind = stack.cluster.kind
    if held.kind_cluster:
        old = KindConfig.decode(held.kind_cluster["config"]).name
        if not ownership.own_nodes(old, held.kind_cluster.get("instance")):
            return "", ""  # deleted by hand: nothing is left to lose
        if kind is not ClusterKind.KIND:
            return old, f"cluster.kind: {ClusterKind.KIND} -> {kind}"
        if old != stack.cluster_name:
            return old, f"cluster.name: {old} -> {stack.cluster_name}"
    # One that was there before us is left, and not removed.
    if held.microk8s and held.microk8s.get("ours") and kind is not ClusterKind.MICROK8S:
        return cluster_name(held.microk8s), f"cluster.kind: {ClusterKind.MICROK8S} -> {kind}"
    return "", ""


def creation_of(stack: Stack, held: StackState) -> Standing | None:
    """What is there of the name of a kind cluster that the update creates; None where it creates none.

    A preview of a cluster that this clone has not begun asks no engine.
    """
    if stack.cluster.kind is not ClusterKind.KIND:
        return None
    name = stack.cluster_name
    if held.kind_cluster and KindConfig.decode(held.kind_cluster["config"]).name == name:
        return None
    if pulumi.runtime.is_dry_run() and not paths.marker(name).exists():
        return None
    return ownership.standing(name)


def ensure_offered(stack: Stack, offered: Mapping[str, Decimal]) -> None:
    """Raises ConfigError for the first job that asks for more GPUs, or the like, than the cluster's nodes offer."""
    for job in stack.jobs:
        for name, value in counted(job.resources.limits()).items():
            wanted, there = quantity(value) * job.replicas.total, offered.get(name, Decimal(0))
            if wanted > there:
                of = "gpu" if name == job.resources.gpu_resource else name
                key = f"trainstack:{job_key(stack, job.name)}.resources.{of}"
                allowed = (
                    f"at most {there.normalize():f} {name} in this cluster; "
                    f"{job.replicas.total} replicas want {wanted.normalize():f}"
                )
                fix = f"lower resources.{of} or replicas, or install the device plugin of {name} on its nodes"
                shown = job.resources.gpu if of == "gpu" else value
                raise ConfigError(paragraph(stack.file, key, shown, allowed, fix))


def job_key(stack: Stack, name: str) -> str:
    """`job`, or `jobs[1]`."""
    names = [job.name for job in stack.jobs]
    return "job" if len(names) == 1 or stack.matrix or stack.sweep else f"jobs[{names.index(name)}]"


def provide(stack: Stack) -> Cluster:
    """Register the cluster."""
    if stack.cluster.kind is ClusterKind.KIND:
        return Kind(stack=stack).cluster
    if stack.cluster.kind is ClusterKind.MICROK8S:
        return MicroK8s(stack=stack).cluster
    return Existing(stack=stack).cluster
