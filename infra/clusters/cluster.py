"""The cluster that the stack trains on, and the protocol that each kind of cluster implements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes

from infra.config import Stack
from infra.objects.look import Look
from infra.objects.stack_state import StackState

Props = Mapping[str, Any]
Say = Callable[[str], None]

TAKES_FIELDS_BACK = True
"""`enablePatchForce` of each provider: the stack file overwrites fields that somebody else has set.

Without it an update fails with a conflict after `kubectl scale` or `kubectl edit`. Fields that the program leaves out,
or leaves to others by `ignoreChanges`, keep their values. See docs/adr/0022.
"""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What the other components need to know of a cluster.

    Parameters:
        provider: for the objects in it.
        kubeconfig: text of the kubeconfig.
        kubeconfig_path: its file in the form of `paths.portable`, known once the file exists; None for the usual file.
        context: the kubeconfig's context, None for its current context.
        cluster_uid: id of the cluster; a replaced cluster has another id.
        owner: the resource whose deletion deletes all objects in the cluster; None for a cluster that outlives the
            stack.
        nodes: containers of a kind cluster's nodes.
        registry: container of a kind cluster's registry.
        registry_container: id of this container.
        image_registry: the registry from which other clusters pull images that were built here.
        image_import: the command that reads an archive of `docker save`, for a cluster without such a registry.
        connection: the resource that connects the nodes with the registry.
    """

    provider: pulumi_kubernetes.Provider
    kubeconfig: pulumi.Output[str]
    kubeconfig_path: pulumi.Input[str | None]
    context: str | None
    cluster_uid: pulumi.Input[str]
    owner: pulumi.Resource | None = None
    nodes: pulumi.Output[list[str]] | None = None
    registry: str | None = None
    registry_container: pulumi.Output[str] | None = None
    image_registry: str | None = None
    image_import: tuple[str, ...] | None = None
    connection: pulumi.Resource | None = None

    @property
    def pull_ready(self) -> list[pulumi.Resource]:
        """The resources that nodes need before they can pull from the cluster's registry."""
        return [self.connection] if self.connection else []

    def options(
        self, parent: pulumi.Resource, depends_on: list[pulumi.Resource] | None = None
    ) -> pulumi.ResourceOptions:
        """Options of an object in this cluster."""
        return pulumi.ResourceOptions.merge(
            self.bound(parent, depends_on), pulumi.ResourceOptions(provider=self.provider)
        )

    def bound(
        self, parent: pulumi.Resource, depends_on: list[pulumi.Resource] | None = None
    ) -> pulumi.ResourceOptions:
        """Options of a dynamic resource that is deleted with this cluster."""
        return pulumi.ResourceOptions(parent=parent, deleted_with=self.owner, depends_on=depends_on or [])


@dataclass(frozen=True)
class Creation:
    """What happens when the update creates the cluster. A cluster of the same name may exist already.

    Parameters:
        is_new: whether the cluster is created empty.
        refusal: returns the error if the cluster may not be created. It takes the stack's owner id.
    """

    is_new: bool
    refusal: Callable[[str | None], Exception] | None = None


class ClusterProtocol:
    """A kind of cluster. Each folder beside this module implements one.

    The methods here are the defaults.

    Attributes:
        holds_others: whether such a cluster may hold others' objects before the stack uses it.
    """

    holds_others = True

    def is_gone(self, stack: Stack, is_preview: bool) -> bool:
        """Whether a cluster that does not answer provably no longer exists.

        In an update, but not in a preview, this method also starts a stopped cluster of ours.
        """
        return False

    def is_lost(self, props: Props) -> bool:
        """Whether the cluster with these properties in the state no longer exists, nor do its objects.

        Only the program that runs the cluster (the container engine, snapd) proves that. An API server that does not
        answer proves nothing.
        """
        return False

    def goes(self, props: Props) -> bool:
        """Whether the cluster with these properties exists, and Pulumi deletes it if the stack moves to another."""
        return not self.is_lost(props)

    def name(self, props: Props) -> str:
        """Name of the cluster with these properties."""
        return str(props["name"])

    def reach(self, stack: Stack, asked: Look, is_preview: bool) -> None:
        """Make an existing cluster reachable. Raises ConfigError if it is not the cluster that the file names."""

    def creation(self, stack: Stack, held: StackState, is_preview: bool) -> Creation | None:
        """What happens when the update creates the cluster; None if the guards ask an existing cluster."""
        return None

    def ensure_replaceable(self, stack: Stack, held: StackState) -> None:
        """Raises an error if the cluster may not be replaced. Nothing was touched then."""

    def register(self, stack: Stack) -> Cluster:
        """Register the cluster. Raises NotImplementedError for a kind without this method."""
        raise NotImplementedError

    def owns(self, name: str) -> bool:
        """Whether a marker says that this clone created the cluster `name` of this kind."""
        return False

    def repair(self, name: str, say: Say) -> None:
        """Repair our cluster outside Pulumi, before its API server is asked. `say` gets a line for each repair."""

    def refuse_others(self, name: str) -> None:
        """Raises ProgramError if somebody else has a cluster of this kind and name."""

    def remove_unfinished(self, name: str, stack: str) -> None:
        """Delete the unfinished cluster that a killed `make up` left. Raises ProgramError for a finished cluster."""
