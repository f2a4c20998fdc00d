"""`python -m infra.clusters.repair <cluster>`: starts what is stopped of a cluster of ours, before Pulumi asks it.

Somebody else's cluster of that name is refused here, before anything is built.

A refresh of the objects in a cluster needs its API server; so what lies below Pulumi is mended first. Prints a line for
each thing done. The exit status is 1, with the reason, when the cluster cannot be made to work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from infra import docker
from infra.clusters import registries
from infra.clusters.kind import ownership, registry
from infra.clusters.kind.repair import NotReadyError
from infra.clusters.kind.repair import repair as repair_kind
from infra.clusters.microk8s import installation
from infra.clusters.microk8s.commands import MicroK8sError
from infra.clusters.microk8s.repair import repair as repair_microk8s
from infra.process import CommandError


def repair(name: str, say: Callable[[str], None]) -> None:
    """Mend the cluster `name`, whose kind its marker tells.

    Raises what its kind's `repair` raises, ForeignClusterError for a kind cluster of that name that is not ours, and
    AnotherEngineError for one that is in another container engine.
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


def main(arguments: list[str]) -> int:
    """Repair the cluster that the first argument names; the exit status."""
    try:
        repair(arguments[0], print)
    except (
        CommandError,
        docker.EngineError,
        MicroK8sError,
        NotReadyError,
        ownership.ForeignClusterError,
        ownership.AnotherEngineError,
    ) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
