"""Starts what is stopped of a cluster of ours, before Pulumi asks it.

Somebody else's cluster of that name is refused here, before anything is built.

A refresh of the objects in a cluster needs its API server; so what lies below Pulumi is mended first.
"""

from __future__ import annotations

from collections.abc import Callable

from infra.clusters import registries
from infra.clusters.kind import ownership, registry
from infra.clusters.kind.repair import repair as repair_kind
from infra.clusters.microk8s import installation
from infra.clusters.microk8s.repair import repair as repair_microk8s


def repair(name: str, say: Callable[[str], None]) -> None:
    """Mend the cluster `name`, whose kind its marker tells.

    Raises what its kind's `repair` raises, ForeignClusterError for a kind cluster of that name that is not ours, and
    AnotherEngineError for one that is in another container engine.

    Parameters:
        say: gets a line for each thing that is done.
    """
    if installation.is_ours(name):
        repair_microk8s(name, say)
        return
    if ownership.read_marker(name) is None:
        ownership.refuse_others(name)
        return
    registry_name = registries.kind_name(name)
    if registry.start(registry_name):
        say(f"registry {registry_name} was stopped: started")
    repair_kind(name, say)
