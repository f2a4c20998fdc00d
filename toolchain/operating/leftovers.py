"""What a killed `make up` left in the container engine without Pulumi knowing of it."""

from __future__ import annotations

import json
from pathlib import Path

from toolchain.machine.engine import Engine
from toolchain.paths import CLUSTERS, ROOT
from toolchain.steps import SetupError

PROJECT = f"label=trainstack.project={ROOT}"


def marker(cluster: str) -> Path:
    """The file that the program writes before it makes a cluster of that name, and removes with it."""
    return CLUSTERS / f"{cluster}.json"


def markers() -> bool:
    """Whether any cluster of this clone was begun and not yet taken down."""
    return any(CLUSTERS.glob("*.json"))


def nodes_of_anybody(engine: Engine, cluster: str, *labels: str) -> list[str]:
    """Ids of the nodes with `labels` of a kind cluster of that name, whoever made it, stopped ones too."""
    wanted = [f"--filter=label={label}" for label in (f"io.x-k8s.kind.cluster={cluster}", *labels)]
    return engine.output("ps", "--all", "--quiet", *wanted).split()


def nodes(engine: Engine, cluster: str, *labels: str) -> list[str]:
    """Those of them that mount our marker: those are ours."""
    found = nodes_of_anybody(engine, cluster, *labels)
    return [node for node in found if str(marker(cluster)) in _sources(engine, node)]


def clusters(engine: Engine) -> list[str]:
    """Names of this clone's clusters that have nodes, running or not."""
    found = engine.output("ps", "--all", "--quiet", "--filter", "label=io.x-k8s.kind.cluster").split()
    mounted = (Path(source) for node in found for source in _sources(engine, node))
    return sorted({file.stem for file in mounted if file == marker(file.stem)})


def remove(engine: Engine, cluster: str) -> None:
    """Remove nodes that mount our marker, and the registry labelled with this folder; no others.

    Raises SetupError where the cluster was made in another engine, which alone could say that nothing of it is left.
    """
    ours = nodes(engine, cluster)
    if not ours and (host := _made_elsewhere(engine, cluster)):
        raise SetupError(
            f"cluster {cluster} was made in the container engine at {host}, and another one answers now",
            f"export DOCKER_HOST={host}; or, where that engine is gone for good, rm {marker(cluster)}",
        )
    registry = ("--filter", PROJECT, "--filter", f"name=^{cluster}-registry$")
    ours += engine.output("ps", "--all", "--quiet", *registry).split()
    if ours:
        engine.output("rm", "--force", "--volumes", *ours)
    marker(cluster).unlink(missing_ok=True)


def _made_elsewhere(engine: Engine, cluster: str) -> str:
    """Host of the engine that the cluster's marker names, where the one that answers is another; else empty."""
    try:
        recorded = json.loads(marker(cluster).read_text()).get("engine") or {}
    except (FileNotFoundError, ValueError):
        return ""
    is_same = not recorded or (
        engine.output("info", "--format", "{{.ID}} {{.DockerRootDir}}") == recorded["id"]
        or engine.output("context", "inspect", "--format", "{{.Endpoints.docker.Host}}") == recorded["host"]
    )
    return "" if is_same else str(recorded["host"])


def remove_registries(engine: Engine) -> None:
    """Remove this clone's registries with their volume.

    Nodes pull from them: none of this clone's clusters may be there any more.
    """
    if registries := engine.output("ps", "--all", "--quiet", "--filter", PROJECT).split():
        engine.output("rm", "--force", "--volumes", *registries)
    volumes = engine.output("volume", "ls", "--quiet", "--filter", PROJECT).split()
    if volumes:
        engine.output("volume", "rm", *volumes)


def _sources(engine: Engine, container: str) -> list[str]:
    mounts = json.loads(engine.output("inspect", "--format", "{{json .Mounts}}", container))
    return [mount.get("Source", "") for mount in mounts]
