"""The kinds of cluster as data, for the program and the toolchain. What each kind does is in `infra/clusters/<kind>/`.

The toolchain reads this before any package is installed: the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True)
class SystemObjects:
    """Objects that a kind of cluster creates by itself. If they are lost, no user loses any work.

    Parameters:
        namespaces: these namespaces, with all their objects.
        groups: API groups that the cluster itself defines, with all their objects.
        objects: single objects, by the plural of the kind and the name.
        prefixes: beginnings of the names of cluster-wide roles and priority classes.
    """

    namespaces: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    objects: tuple[tuple[str, str], ...] = ()
    prefixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Traits:
    """The properties of a kind of cluster.

    Parameters:
        keys: keys of section `cluster` that not every kind has.
        is_ours: whether the stack creates the cluster. Then the stack sets the rules of the cluster (`cluster.guard`).
        has_our_nodes: whether the nodes are containers of this machine. Then they mount folders of the clone, and pull
            from our registry.
        imports_images: whether the nodes import an image from an archive, without a registry.
        resource: the cluster's resource in Pulumi's state; empty if the stack creates none.
        goes_whole: whether `make down` deletes the cluster with all its contents.
        programs: program -> what `make doctor` prints if the program is installed. One of the programs is enough. Empty
            if set-up installs what the kind needs.
        without: what `make doctor` prints if none of `programs` is installed, and the command that installs one.
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
    """The program with which the stack creates the cluster; EXISTING: somebody else creates the cluster."""

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
        """The type of its resource in Pulumi's state; empty if the stack creates none."""
        return f"pulumi-python:dynamic/trainstack:{self.traits.resource}" if self.traits.resource else ""


USUAL = ClusterKind.KIND
"""The default kind."""
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
            ("microk8s", "MicroK8s is installed"),
            ("snap", "`make up` installs MicroK8s from its snap; only root may do that"),
        ),
        without=("MicroK8s is a snap, and snapd is not installed", "sudo apt-get install snapd"),
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
    """The kind that a stack file names; the default kind if it names no known kind."""
    return next((kind for kind in ClusterKind if kind == text), USUAL)


def only_for(key: str) -> list[ClusterKind]:
    """The kinds with this key of section `cluster`; empty for a key of every kind."""
    return [kind for kind, traits in KINDS.items() if key in traits.keys]
