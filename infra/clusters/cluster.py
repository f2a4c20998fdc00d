"""The cluster that the stack trains on, and what each kind of cluster does: one protocol, and nobody asks which."""

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
"""`enablePatchForce` of each provider: the stack file wins over whoever has set a field since.

Without it an update fails with a conflict wherever somebody has used `kubectl scale` or `kubectl edit`. Fields that the
program leaves out, or leaves to others by `ignoreChanges`, stay theirs. See docs/adr/0022.
"""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What the other components need to know of a cluster.

    Parameters:
        provider: for the objects in it.
        kubeconfig: text of the kubeconfig.
        kubeconfig_path: its file as `paths.portable` has it, known when the file is written; None for the usual one.
        context: the kubeconfig's context, None for its current one.
        cluster_uid: id of the cluster; one that is made anew has another.
        owner: the resource whose deletion takes all objects in the cluster with it; None for a cluster that outlives
        the stack.
        nodes: containers of a kind cluster's nodes.
        registry: container of a kind cluster's registry.
        registry_container: its id.
        image_registry: where other clusters pull images from that were built here.
        image_import: the command that takes an archive of `docker save`, where there is no such registry.
        connection: what has to be there before nodes can pull.
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
        """What has to be there before nodes can pull from the cluster's registry."""
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
        """Options of a dynamic resource that ends with this cluster."""
        return pulumi.ResourceOptions(parent=parent, deleted_with=self.owner, depends_on=depends_on or [])


@dataclass(frozen=True)
class Creation:
    """What creating a cluster comes to, by what is there of its name.

    Parameters:
        is_new: whether the cluster will be made, and hold nothing.
        refusal: makes the error of a cluster that may not be created, from the id of the stack's owner.
    """

    is_new: bool
    refusal: Callable[[str | None], Exception] | None = None


class ClusterProtocol:
    """A kind of cluster: a folder beside this module implements it.

    A method with a body says what a kind does that needs nothing special.

    Attributes:
        holds_others: whether somebody else's objects may be in such a cluster when the stack comes to it.
    """

    holds_others = True

    def is_gone(self, stack: Stack, is_preview: bool) -> bool:
        """Whether a cluster that does not answer is proved gone. An update starts one of ours that is stopped."""
        return False

    def is_lost(self, props: Props) -> bool:
        """Whether the cluster with these properties in the state is gone, and its objects with it.

        Only whoever owns it proves that: a silent API server proves nothing.
        """
        return False

    def goes(self, props: Props) -> bool:
        """Whether Pulumi removes the cluster with these properties when it leaves the state, and it is still there."""
        return not self.is_lost(props)

    def name(self, props: Props) -> str:
        """Name of the cluster with these properties."""
        return str(props["name"])

    def reach(self, stack: Stack, asked: Look, is_preview: bool) -> None:
        """Let the cluster be asked, where it is there. Raises ConfigError for another one than the file names."""

    def creation(self, stack: Stack, held: StackState, is_preview: bool) -> Creation | None:
        """What is there of the name of a cluster that the update creates; None where the guards ask the cluster."""
        return None

    def ensure_replaceable(self, stack: Stack, held: StackState) -> None:
        """Raises what says why the cluster may not be replaced, before anything is touched."""

    def register(self, stack: Stack) -> Cluster:
        """Register the cluster. Raises NotImplementedError for a kind that does not."""
        raise NotImplementedError

    def owns(self, name: str) -> bool:
        """Whether a marker says that this clone made the cluster `name` with this kind."""
        return False

    def repair(self, name: str, say: Say) -> None:
        """Mend a cluster of ours below Pulumi, before its API server is asked. `say` gets a line for what is done."""

    def refuse_others(self, name: str) -> None:
        """Raises ProgramError where somebody else has a cluster of this kind and name."""

    def remove_unfinished(self, name: str, stack: str) -> None:
        """Remove what a killed `make up` left of the cluster. Raises ProgramError for a finished one."""
