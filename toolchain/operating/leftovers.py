"""What a killed `make up` left in the container engine without Pulumi knowing of it."""

from __future__ import annotations

import json
from pathlib import Path

from toolchain.machine.engine import Engine
from toolchain.paths import CLUSTERS, ROOT


def marker(cluster: str) -> Path:
    """The file that the program writes before it makes a cluster of that name, and removes with it."""
    return CLUSTERS / f"{cluster}.json"


def markers() -> bool:
    """Whether any cluster of this clone was begun and not yet taken down."""
    return any(CLUSTERS.glob("*.json"))


def remove(engine: Engine, cluster: str) -> None:
    """Remove nodes that mount our marker, and the registry labelled with this folder; no others."""
    nodes = engine.output("ps", "--all", "--quiet", "--filter", f"label=io.x-k8s.kind.cluster={cluster}")
    ours = [node for node in nodes.split() if _mounts(engine, node, marker(cluster))]
    registry = ("--filter", f"label=trainstack.project={ROOT}", "--filter", f"name=^{cluster}-registry$")
    ours += engine.output("ps", "--all", "--quiet", *registry).split()
    if ours:
        engine.output("rm", "--force", "--volumes", *ours)
    marker(cluster).unlink(missing_ok=True)


def _mounts(engine: Engine, container: str, file: Path) -> bool:
    mounts = json.loads(engine.output("inspect", "--format", "{{json .Mounts}}", container))
    return any(mount.get("Source") == str(file) for mount in mounts)
