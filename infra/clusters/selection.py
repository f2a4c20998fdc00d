"""Selects the protocol for the stack's kind of cluster, and reads the cluster before anything is registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pulumi

from infra import paths
from infra.cluster_kinds import ClusterKind
from infra.clusters import addresses, replacement
from infra.clusters.cluster import Cluster, ClusterProtocol, Creation
from infra.clusters.discovery import ClusterContents, IsOurs, Question, read_contents
from infra.clusters.existing.component import ExistingClusters
from infra.clusters.kind.component import KindClusters
from infra.clusters.microk8s.component import MicroK8sClusters
from infra.clusters.node_folders import ensure_one_folder
from infra.config import Stack
from infra.config.errors import not_allowed
from infra.config.names import quantity
from infra.config.operator import KUEUE_NAMESPACE, Install, Queueing
from infra.config.resources import counted
from infra.config.storage_kinds import StorageKind
from infra.objects.job_kinds import OF_API
from infra.objects.look import Look
from infra.objects.stack_state import StackState

PROTOCOLS: dict[ClusterKind, ClusterProtocol] = {
    ClusterKind.KIND: KindClusters(),
    ClusterKind.MICROK8S: MicroK8sClusters(),
    ClusterKind.EXISTING: ExistingClusters(),
}


def protocol(stack: Stack) -> ClusterProtocol:
    """The protocol of the stack's kind of cluster."""
    return PROTOCOLS[stack.cluster.kind]


def look(stack: Stack) -> Look:
    """The access to the stack's cluster for the guards of this update or preview."""

    def is_gone() -> bool:
        return protocol(stack).is_gone(stack, pulumi.runtime.is_dry_run())

    return Look(addresses.of_stack(stack), pulumi.log.info, is_gone)


def examine(stack: Stack, is_ours: IsOurs, asked: Look) -> ClusterContents:
    """The contents of the cluster now. Raises ConfigError if it cannot run the stack's jobs, and UnknownError.

    A cluster that has only our objects is asked only if a job needs GPUs or other counted resources.
    """
    own = not protocol(stack).holds_others
    wanted = any(counted(job.resources.limits()) for job in stack.jobs)
    if own and not (wanted and paths.kubeconfig(stack.cluster_name).exists()):
        return ClusterContents()
    protocol(stack).reach(stack, asked, pulumi.runtime.is_dry_run())
    found = read_contents(asked, is_ours, question(stack, is_ours))
    if not asked.is_there:
        found = ClusterContents(
            problem=f"the cluster of stack {stack.name} does not exist or cannot be asked: its contents are unknown"
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

    A stack that uses somebody else's claim and operator lists no objects of others, except Kueue's.
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
    """Whether the jobs' namespace exists already: the stack uses a claim in it, and did not create the namespace."""
    namespace = {"kind": "Namespace", "metadata": {"name": stack.cluster.namespace}}
    return stack.storage.kind is StorageKind.CLAIM and not is_ours(namespace)


def ensure_old_cluster_may_go(stack: Stack, held: StackState) -> None:
    """Say what is lost if a stack moves from its own cluster to another kind or name: Pulumi deletes the old cluster.

    If kind and name stay, the diff of the cluster's resource checks a replacement. Raises ReplacementRefusedError,
    before anything is touched, if the old cluster has others' objects.

    Parameters:
        held: what the stack's state holds.
    """
    name, reason = _left_cluster(stack, held)
    if name:
        replacement.ensure_allowed(name, stack.name, [reason], pulumi.log.warn)


def _left_cluster(stack: Stack, held: StackState) -> tuple[str, str]:
    """Name of the cluster that the next update deletes, and the changed key; empty if it deletes none."""
    kind = stack.cluster.kind
    for old, props in held.clusters.items():
        name = PROTOCOLS[old].name(props)
        if (old, name) != (kind, stack.cluster_name) and PROTOCOLS[old].goes(props):
            moved = f"cluster.kind: {old} -> {kind}"
            return name, moved if old is not kind else f"cluster.name: {name} -> {stack.cluster_name}"
    return "", ""


def creation_of(stack: Stack, held: StackState) -> Creation | None:
    """What happens when the update creates the cluster; None if the guards ask an existing cluster."""
    return protocol(stack).creation(stack, held, pulumi.runtime.is_dry_run())


def is_lost(kind: ClusterKind, props: Mapping[str, Any]) -> bool:
    """Whether the cluster with these properties in a state no longer exists. Raises ProgramError, CommandError."""
    return PROTOCOLS[kind].is_lost(props)


def repair(name: str, say: Callable[[str], None]) -> None:
    """Repair the cluster `name` outside Pulumi: a refresh of the objects in a cluster needs its API server.

    Raises ProgramError for somebody else's cluster of that name, before anything is built.

    Parameters:
        say: gets a line for each repair.
    """
    made_by = [each for each in PROTOCOLS.values() if each.owns(name)]
    for each in made_by:
        each.repair(name, say)
    if not made_by:
        for each in PROTOCOLS.values():
            each.refuse_others(name)


def remove_unfinished(name: str, stack: str) -> None:
    """Delete an unfinished cluster of a killed `make up`, with its marker. Another clone's cluster stays unchanged.

    `make down` calls this last, after Pulumi has deleted the resources in the state. Raises ProgramError, CommandError.
    """
    for each in [each for each in PROTOCOLS.values() if each.owns(name)] or PROTOCOLS.values():
        each.remove_unfinished(name, stack)


def ensure_offered(stack: Stack, offered: Mapping[str, Decimal]) -> None:
    """Raises ConfigError for the first job that needs more GPUs, or other counted resources, than the nodes have."""
    for place, job in enumerate(stack.jobs):
        for name, value in counted(job.resources.limits()).items():
            wanted, there = quantity(value) * job.replicas.total, offered.get(name, Decimal(0))
            if wanted > there:
                of = "gpu" if name == job.resources.gpu_resource else name
                key = stack.key(place, f"resources.{of}")
                allowed = (
                    f"at most {there.normalize():f} {name} in this cluster; "
                    f"{job.replicas.total} replicas need {wanted.normalize():f}"
                )
                fix = f"lower resources.{of} or replicas, or install the device plugin of {name} on the cluster's nodes"
                shown = job.resources.gpu if of == "gpu" else value
                raise not_allowed(stack.file, key, shown, allowed, fix)


def register(stack: Stack) -> Cluster:
    """Register the cluster."""
    return protocol(stack).register(stack)
