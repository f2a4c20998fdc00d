"""What is done to a cluster of ours below Pulumi: started before it is asked, cleared when the state has it no more.

Somebody else's cluster of that name is refused here, before anything is built.

A refresh of the objects in a cluster needs its API server; so what lies below Pulumi is mended first.
"""

from __future__ import annotations

from collections.abc import Callable

from infra import paths
from infra.clusters import registries
from infra.clusters.kind import kind_cli, ownership, predecessor, registry
from infra.clusters.kind.ownership import Standing
from infra.clusters.kind.predecessor import Step
from infra.clusters.kind.repair import repair as repair_kind
from infra.clusters.microk8s import installation
from infra.clusters.microk8s.installation import repair as repair_microk8s


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


def remove_unfinished(cluster: str, stack: str) -> None:
    """Remove an unfinished cluster, which a killed `make up` left, with its registry and its marker.

    Another clone's is left as it is. `make down` asks for it last, when Pulumi has deleted what the state had: so a
    finished cluster that is still there is in no state of this backend, and stays.

    Raises ReplacementRefusedError for a finished one, AnotherEngineError, EngineError and CommandError.
    """
    standing = ownership.standing(cluster)
    if predecessor.UNASKED[standing] is Step.CLEAR:
        kind_cli.delete(cluster)
    elif standing not in (Standing.NONE, Standing.OTHERS):
        raise predecessor.refusal(standing, cluster, stack, lose=predecessor.by_hand(cluster))
    registry.delete(registries.kind_name(cluster))
    paths.marker(cluster).unlink(missing_ok=True)
