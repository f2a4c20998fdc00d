"""What the machine still holds of a cluster: what a killed `make up` left there, and the proof that nothing is."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from infra import agreed, paths
from toolchain.machine.engine import Engine
from toolchain.operating import state
from toolchain.operating.environment import for_child
from toolchain.paths import ROOT

PROJECT = f"label=trainstack.project={ROOT}"
CONTROL_PLANE = "io.x-k8s.kind.role=control-plane"


def marker(cluster: str) -> Path:
    """The file that the program writes before it makes a cluster of that name, and removes with it."""
    return paths.marker(cluster)


def begun() -> list[str]:
    """Names of this clone's clusters that were begun and not yet taken down."""
    return sorted(file.stem for file in paths.markers().glob("*.json"))


def unfinished(cluster: str) -> str | None:
    """The id of a cluster of that name whose creation was never finished, as its marker says; None for any other.

    infra/clusters/kind/ownership.py writes it.
    """
    try:
        told = json.loads(marker(cluster).read_bytes())
        return str(told["id"]) if told.get("finished") is False else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


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


def cluster_is_gone(deployment: state.Deployment, engine: Engine, variables: Mapping[str, str]) -> bool:
    """Whether the cluster in `deployment` is gone, and its objects with it.

    Of a kind cluster the container engine says so: it answers, and has no control plane that mounts the cluster's
    marker. The marker says so where an interrupted replacement has begun another cluster. Of MicroK8s snapd says so. A
    cluster by kubeconfig is somebody else's, and never proved gone: an API server that does not answer proves nothing.
    """
    if name := state.kind_cluster(deployment):
        begun = unfinished(name)
        return (begun is not None and begun != state.instance(deployment)) or not nodes(
            engine, name, CONTROL_PLANE
        )
    if state.of_type(deployment, agreed.MICROK8S):
        return _snap_is_gone(variables)
    return False


def _snap_is_gone(variables: Mapping[str, str]) -> bool:
    snap = shutil.which("snap", path=variables["PATH"])
    if not snap:
        return False
    done = subprocess.run(
        [snap, "list", "microk8s"], env=for_child(variables), capture_output=True, text=True
    )
    return done.returncode != 0 and "no matching snaps installed" in done.stderr
