"""What a killed `make up` left of a cluster goes.

`make down` asks for it last, when Pulumi has deleted what the state had. So a finished cluster that is still there is
in no state of this backend, and stays.
"""

from __future__ import annotations

from infra import paths
from infra.clusters import registries
from infra.clusters.kind import kind_cli, ownership, predecessor, registry
from infra.clusters.kind.ownership import Standing
from infra.clusters.kind.predecessor import Step


def remove(cluster: str, stack: str) -> None:
    """Remove an unfinished cluster with its registry and its marker; leave another clone's as it is.

    Raises ReplacementRefusedError for a finished one, AnotherEngineError, EngineError and CommandError.
    """
    standing = ownership.standing(cluster)
    if predecessor.UNASKED[standing] is Step.CLEAR:
        kind_cli.delete(cluster)
    elif standing not in (Standing.NONE, Standing.OTHERS):
        raise predecessor.refusal(standing, cluster, stack, lose=predecessor.by_hand(cluster))
    registry.delete(registries.kind_name(cluster))
    paths.marker(cluster).unlink(missing_ok=True)
