"""The kinds of cluster behind one protocol, and a look at a stack's cluster before anything is registered."""

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
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
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
    """What the stack's kind of cluster does."""
    return PROTOCOLS[stack.cluster.kind]


def look(stack: Stack) -> Look:
    """How the guards of this update or preview ask the stack's cluster."""

    def is_gone() -> bool:
        return protocol(stack).is_gone(stack, pulumi.runtime.is_dry_run())

    return Look(addresses.of_stack(stack), pulumi.log.info, is_gone)


def examine(stack: Stack, is_ours: IsOurs, asked: Look) -> ClusterContents:
    """What the cluster holds now. Raises ConfigError when it cannot run the stack's jobs, and UnknownError.

    A cluster in which everything is ours is only asked where GPUs or the like are wanted.
    """
    own = not protocol(stack).holds_others
    wanted = any(counted(job.resources.limits()) for job in stack.jobs)
    if own and not (wanted and paths.kubeconfig(stack.cluster_name).exists()):
        return ClusterContents()
    protocol(stack).reach(stack, asked, pulumi.runtime.is_dry_run())
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
    for old, props in held.clusters.items():
        name = PROTOCOLS[old].name(props)
        if (old, name) != (kind, stack.cluster_name) and PROTOCOLS[old].goes(props):
            moved = f"cluster.kind: {old} -> {kind}"
            return name, moved if old is not kind else f"cluster.name: {name} -> {stack.cluster_name}"
    return "", ""


def creation_of(stack: Stack, held: StackState) -> Creation | None:
    """What creating the stack's cluster comes to; None where the guards ask the cluster."""
    return protocol(stack).creation(stack, held, pulumi.runtime.is_dry_run())


def is_lost(kind: ClusterKind, props: Mapping[str, Any]) -> bool:
    """Whether the cluster with these properties in a state is proved gone. Raises ProgramError, CommandError."""
    return PROTOCOLS[kind].is_lost(props)


def repair(name: str, say: Callable[[str], None]) -> None:
    """Mend the cluster `name` below Pulumi: a refresh of the objects in a cluster needs its API server.

    Somebody else's cluster of that name is refused here, before anything is built. Raises ProgramError.

    Parameters:
        say: gets a line for each thing that is done.
    """
    made_by = [each for each in PROTOCOLS.values() if each.owns(name)]
    for each in made_by:
        each.repair(name, say)
    if not made_by:
        for each in PROTOCOLS.values():
            each.refuse_others(name)


def remove_unfinished(name: str, stack: str) -> None:
    """Remove an unfinished cluster, which a killed `make up` left, with its marker. Another clone's is left as it is.

    `make down` asks for it last, when Pulumi has deleted what the state had. Raises ProgramError, CommandError.
    """
    for each in [each for each in PROTOCOLS.values() if each.owns(name)] or PROTOCOLS.values():
        each.remove_unfinished(name, stack)


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


def register(stack: Stack) -> Cluster:
    """Register the cluster."""
    return protocol(stack).register(stack)
