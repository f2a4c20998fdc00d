"""`python -m infra.clusters.unfinished <cluster> <stack>`: what a killed `make up` left of a cluster goes.

`make down` runs it last, when Pulumi has deleted what the state had. So a finished cluster that is still there is
in no state of this backend, and stays. The exit status is 1, with the reason, where something stays that is ours.
"""

from __future__ import annotations

import sys

from infra import docker, paths
from infra.clusters import registries
from infra.clusters.kind import kind_cli, ownership, predecessor, registry
from infra.clusters.kind.ownership import Standing
from infra.clusters.kind.predecessor import Step
from infra.clusters.replacement import ReplacementRefusedError
from infra.process import CommandError


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


def main(arguments: list[str]) -> int:
    """Remove what is left of the cluster that the first argument names, of the stack in the second; the exit status."""
    try:
        remove(*arguments)
    except (
        CommandError,
        docker.EngineError,
        ownership.AnotherEngineError,
        ReplacementRefusedError,
    ) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
