"""A kind cluster with its registry, and whether an update may replace it.

When Pulumi before 3.260 replaces a cluster, `deleted_with` has no effect: at the end of the update Pulumi still deletes
each old object, by a plugin that no longer reaches the old cluster. A user's own Pulumi may be that old. The plugin
removes such objects from the state if PULUMI_K8S_DELETE_UNREACHABLE is "true". This variable must be set only for that
one update: an API server that restarts looks the same as a deleted cluster.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pulumi
import pulumi_kubernetes

from infra import agreed, docker, paths
from infra.cluster_kinds import ClusterKind
from infra.clusters import registries, replacement
from infra.clusters.cluster import TAKES_FIELDS_BACK, Cluster, ClusterProtocol, Creation, Props, Say
from infra.clusters.kind import kind_cli, ownership, predecessor, registry, repair
from infra.clusters.kind.config import MODELS, KindConfig
from infra.clusters.kind.ownership import Standing
from infra.clusters.kind.predecessor import Step
from infra.clusters.kind.providers import Connection, KindCluster, Registry, replaced_for
from infra.config import Stack
from infra.objects.stack_state import StackState
from infra.process import CommandError

REGISTRY_IMAGE = "registry:3"
# Read once and removed from the program's environment: pulumi_kubernetes would write it into the provider's inputs, for
# all later updates. The plugins get it from the CLI.
_MAY_BE_DROPPED = os.environ.pop(agreed.DELETE_UNREACHABLE, "") == "true"


class OldObjectsError(agreed.ProgramError):
    """A cluster would be replaced, and its old objects could no longer be deleted."""


def kind_config(stack: Stack) -> KindConfig:
    """The cluster that the stack file asks for."""
    return KindConfig(
        name=stack.cluster_name,
        stack=stack.name,
        models_path=stack.storage.host_path or MODELS,
        workers=stack.cluster.workers,
        api_server_port=stack.cluster.api_server_port,
    )


def _inputs(stack: Stack) -> dict[str, Any]:
    return {"config": kind_config(stack).encode(), "image": os.environ.get(agreed.NODE_IMAGE) or None}


def without_dependencies(output: pulumi.Output[str]) -> pulumi.Output[str]:
    """`output` without its dependency on the resource that it comes from.

    Before Pulumi (3.246) replaces a cluster, it asks each resource that reads the cluster's properties whether this
    resource must be replaced, too. Pulumi ends the plugin of a provider that says yes, and then needs this plugin to
    delete the old objects. A provider without a dependency is asked later, when the new cluster exists. The objects
    then need no deletion: they were deleted with the old cluster.
    """
    value = cast("Awaitable[str]", output.future(with_unknowns=True))
    return pulumi.Output(set(), value, output.is_known(), output.is_secret())


class Kind(pulumi.ComponentResource):
    """A kind cluster, its registry, the nodes' connection to it, and a provider for the objects in the cluster."""

    def __init__(self, *, stack: Stack) -> None:
        super().__init__("trainstack:cluster:Kind", stack.cluster_name)
        name = stack.cluster_name
        child = pulumi.ResourceOptions(parent=self)
        kubeconfig_path = paths.portable(paths.kubeconfig(name))
        cluster = KindCluster(name, _inputs(stack), child)
        # Pulumi returns the outputs of a resource once they are in the state.
        cluster.instance.apply(lambda uid: ownership.finish(name, uid))
        registry_image = os.environ.get(agreed.REGISTRY_IMAGE) or REGISTRY_IMAGE
        registry_name = registries.kind_name(name)
        registry = Registry(registry_name, {"name": registry_name, "image": registry_image}, child)
        link = {"registry": registry_name, "container": registry.container}
        connection = Connection(
            registry_name, {**link, "instance": cluster.instance, "nodes": cluster.nodes}, child
        )
        provider = pulumi_kubernetes.Provider(
            name,
            kubeconfig=without_dependencies(cluster.kubeconfig),
            cluster_identifier=without_dependencies(cluster.instance),
            enable_patch_force=TAKES_FIELDS_BACK,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[cluster]),
        )
        self.cluster = Cluster(
            provider=provider,
            kubeconfig=cluster.kubeconfig,
            # an output of the cluster, so that resources that read the file wait until it is written
            kubeconfig_path=cluster.instance.apply(lambda _: kubeconfig_path),
            context=None,
            cluster_uid=cluster.instance,
            owner=cluster,
            nodes=cluster.nodes,
            registry=registry_name,
            registry_container=connection.container,
            connection=connection,
        )
        self.register_outputs({"kubeconfig": cluster.kubeconfig, "nodes": cluster.nodes})


class KindClusters(ClusterProtocol):
    """kind's clusters. The container engine says whether one still exists."""

    holds_others = False

    def is_gone(self, stack: Stack, is_preview: bool) -> bool:
        """True also without our kubeconfig file: it exists only after the cluster's creation."""
        name = stack.cluster_name
        if not paths.kubeconfig(name).exists():
            return True
        try:
            if ownership.standing(name) in (Standing.NONE, Standing.UNFINISHED, Standing.REMAINS):
                return True
            if not is_preview:
                repair.repair(name, pulumi.log.info)
        except (CommandError, docker.EngineError, repair.NotReadyError):
            pass
        return False

    def is_lost(self, props: Props) -> bool:
        return not ownership.own_nodes(self.name(props), props.get("instance"))

    def name(self, props: Props) -> str:
        return KindConfig.decode(props["config"]).name

    def creation(self, stack: Stack, held: StackState, is_preview: bool) -> Creation | None:
        """A preview asks the engine only if this clone has started to create the cluster."""
        name, props = stack.cluster_name, held.clusters.get(ClusterKind.KIND)
        if props and self.name(props) == name:
            return None
        if is_preview and not paths.marker(name).exists():
            return None
        standing = ownership.standing(name)
        step = predecessor.step(standing)
        refusal = partial(predecessor.refusal, standing, name, stack.name) if step is Step.REFUSE else None
        return Creation(step in (Step.MAKE, Step.CLEAR), refusal)

    def ensure_replaceable(self, stack: Stack, held: StackState) -> None:
        """In a preview, this does nothing: the cluster's diff does the check.

        Raises ReplacementRefusedError and OldObjectsError.
        """
        props = held.clusters.get(ClusterKind.KIND)
        if pulumi.runtime.is_dry_run() or not (props and held.objects):
            return
        reasons = replaced_for(dict(props), _inputs(stack))
        if not reasons:
            return
        old, name = KindConfig.decode(props["config"]).name, stack.cluster_name
        if ownership.own_nodes(old, props.get("instance")):
            # First refuse to lose others' objects, then say how to go on. The diff tells the user what is lost.
            replacement.ensure_allowed(old, stack.name, reasons, say=lambda _line: None)
        if _MAY_BE_DROPPED:
            return
        if file := os.environ.get(agreed.LOST_OBJECTS):
            Path(file).write_text(json.dumps({"replaced": name}))
        raise OldObjectsError(
            f"kind cluster {name} will be replaced ({', '.join(reasons)}); nothing was touched yet.\n"
            f"  fix: `make up` goes on by itself; with plain pulumi, set {agreed.DELETE_UNREACHABLE}=true for this one "
            "update, which then removes the old cluster's objects from the state"
        )

    def register(self, stack: Stack) -> Cluster:
        return Kind(stack=stack).cluster

    def owns(self, name: str) -> bool:
        return ownership.read_marker(name) is not None

    def repair(self, name: str, say: Say) -> None:
        registry_name = registries.kind_name(name)
        if (found := registry.own(registry_name)) and registry.start(registry_name, found):
            say(f"registry {registry_name} was stopped: started")
        repair.repair(name, say)

    def refuse_others(self, name: str) -> None:
        ownership.refuse_others(name)

    def remove_unfinished(self, name: str, stack: str) -> None:
        """A finished cluster stays: if it still exists after Pulumi's deletion, no state of this backend has it.

        Raises ReplacementRefusedError for such a cluster, AnotherEngineError, EngineError and CommandError.
        """
        standing = ownership.standing(name)
        if predecessor.UNASKED[standing] is Step.CLEAR:
            kind_cli.delete(name)
        elif standing not in (Standing.NONE, Standing.OTHERS):
            raise predecessor.refusal(standing, name, stack, lose=predecessor.by_hand(name))
        registry.delete(registries.kind_name(name))
        paths.forget(name, ownership.KEYS)
