"""What is left of a cluster on this machine, for example after a killed `make up`."""

from __future__ import annotations

import json
from pathlib import Path

from infra import paths
from toolchain.machine.engine import Engine
from toolchain.paths import ROOT

PROJECT = f"label=trainstack.project={ROOT}"


def marker(cluster: str) -> Path:
    """The file that the program writes before it creates a cluster of that name, and removes with the cluster."""
    return paths.marker(cluster)


def begun() -> list[str]:
    """Names of this clone's clusters whose creation has begun, and which are not deleted yet."""
    return sorted(file.stem for file in paths.markers().glob("*.json"))


def nodes_of_anybody(engine: Engine, cluster: str, *labels: str) -> list[str]:
    """Ids of the nodes with `labels` in kind's cluster `cluster`: nodes of any clone, running or stopped."""
    wanted = [f"--filter=label={label}" for label in (f"io.x-k8s.kind.cluster={cluster}", *labels)]
    return engine.output("ps", "--all", "--quiet", *wanted).split()


def nodes(engine: Engine, cluster: str, *labels: str) -> list[str]:
    """The nodes of `nodes_of_anybody` that mount our marker: the nodes of this clone."""
    found = nodes_of_anybody(engine, cluster, *labels)
    return [node for node in found if str(marker(cluster)) in _sources(engine, node)]


def clusters(engine: Engine) -> list[str]:
    """Names of this clone's clusters that have nodes, running or not."""
    found = engine.output("ps", "--all", "--quiet", "--filter", "label=io.x-k8s.kind.cluster").split()
    mounted = (Path(source) for node in found for source in _sources(engine, node))
    return sorted({file.stem for file in mounted if file == marker(file.stem)})


def remove_registries(engine: Engine) -> None:
    """Remove this clone's registries with their volumes.

    Nodes pull from these registries, so all clusters of this clone must be deleted first.
    """
    if registries := engine.output("ps", "--all", "--quiet", "--filter", PROJECT).split():
        engine.output("rm", "--force", "--volumes", *registries)
    volumes = engine.output("volume", "ls", "--quiet", "--filter", PROJECT).split()
    if volumes:
        engine.output("volume", "rm", *volumes)


def _sources(engine: Engine, container: str) -> list[str]:
    mounts = json.loads(engine.output("inspect", "--format", "{{json .Mounts}}", container))
    return [mount.get("Source", "") for mount in mounts]
