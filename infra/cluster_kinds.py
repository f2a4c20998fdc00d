"""The kinds of cluster as data, for the program and the toolchain. What each kind does is in `infra/clusters/<kind>/`.

The toolchain reads this before any package is installed: the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True)
class SystemObjects:
    """What a kind of cluster has in it by itself: nobody's work is lost with that.

    Parameters:
        namespaces: with all that is in them.
        groups: API groups of its own definitions.
        objects: plural and name.
        prefixes: how names of its cluster-wide roles and priority classes begin.
    """

    namespaces: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    objects: tuple[tuple[str, str], ...] = ()
    prefixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Traits:
    """What a kind of cluster is.

    Parameters:
        keys: keys of section `cluster` that not every kind has.
        is_ours: whether the stack makes the cluster: nobody else has an operator there, its rules are the stack's.
        has_our_nodes: whether its nodes are containers of this machine: they mount folders of the clone and have our
            registry.
        imports_images: whether an image that is built here gets to its nodes without a registry.
        resource: the name of the resource in Pulumi's state that is the cluster; empty where the stack makes none.
        goes_whole: whether `make down` removes the cluster with all that is in it.
        programs: program -> what `make doctor` says where it is here; any of them will do. None is needed where set-up
            brings the program.
        without: what it says where none of them is here, and how to get one.
    """

    keys: frozenset[str]
    is_ours: bool = True
    has_our_nodes: bool = False
    imports_images: bool = False
    resource: str = ""
    goes_whole: bool = False
    programs: tuple[tuple[str, str], ...] = ()
    without: tuple[str, str] = ("", "")
    system: SystemObjects = field(default_factory=SystemObjects)


class ClusterKind(StrEnum):
    """Who makes the cluster: the stack with the program of that name, or somebody else."""

    KIND = "kind"
    MICROK8S = "microk8s"
    EXISTING = "existing"

    @property
    def traits(self) -> Traits:
        """Its row in KINDS."""
        return KINDS[self]

    @property
    def is_ours(self) -> bool:
        """As in Traits."""
        return self.traits.is_ours

    @property
    def has_our_nodes(self) -> bool:
        """As in Traits."""
        return self.traits.has_our_nodes

    @property
    def imports_images(self) -> bool:
        """As in Traits."""
        return self.traits.imports_images

    @property
    def resource(self) -> str:
        """The type of its resource in Pulumi's state; empty where the stack makes none."""
        return f"pulumi-python:dynamic/trainstack:{self.traits.resource}" if self.traits.resource else ""


USUAL = ClusterKind.KIND
"""The kind of a stack file that names none."""
KINDS: dict[ClusterKind, Traits] = {
    ClusterKind.KIND: Traits(
        keys=frozenset({"name", "workers", "apiServerPort"}),
        has_our_nodes=True,
        resource="KindCluster",
        goes_whole=True,
        system=SystemObjects(
            namespaces=("local-path-storage",),
            objects=(("storageclasses", "standard"),),
            prefixes=("kindnet", "local-path-provisioner"),
        ),
    ),
    ClusterKind.MICROK8S: Traits(
        keys=frozenset({"channel", "addons"}),
        imports_images=True,
        resource="MicroK8s",
        programs=(
            ("microk8s", "MicroK8s, which is here"),
            ("snap", "MicroK8s, installed from its snap; root alone may do that"),
        ),
        without=("MicroK8s comes as a snap, and snapd is not here", "sudo apt-get install snapd"),
        system=SystemObjects(
            namespaces=("container-registry", "gpu-operator-resources"),  # of its add-ons
            groups=("crd.projectcalico.org",),  # its pod network
            objects=(("storageclasses", "microk8s-hostpath"),),
            prefixes=("calico-", "coredns", "microk8s-hostpath"),
        ),
    ),
    ClusterKind.EXISTING: Traits(keys=frozenset({"kubeconfig", "context", "server", "id"}), is_ours=False),
}


def kind_of(text: str) -> ClusterKind:
    """The kind that a stack file names; the usual one where it names none that there is."""
    return next((kind for kind in ClusterKind if kind == text), USUAL)


def only_for(key: str) -> list[ClusterKind]:
    """The kinds that have this key of section `cluster`; none for a key of every kind."""
    return [kind for kind, traits in KINDS.items() if key in traits.keys]
