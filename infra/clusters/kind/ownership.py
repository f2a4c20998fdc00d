"""Whose is a kind cluster of a given name?

Before `kind create` we write a marker file, and mount that very file into every node. A cluster is ours when its
nodes mount our clone's marker, even one that a killed run left half made. A cluster of another clone, or one made by
hand, is not ours.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from infra import docker, paths
from infra.clusters.kind import engine_record
from infra.clusters.kind.config import OWNER

LABEL = "io.x-k8s.kind.cluster"
ROLE = "io.x-k8s.kind.role"

Node = dict[str, Any]


class ForeignClusterError(RuntimeError):
    """A kind cluster of our name exists and is not ours."""


def write_marker(cluster: str, uid: str | None = None) -> str:
    """Write down the cluster's id, a new random one by default, and the engine that holds it. Returns the id."""
    marker = paths.marker(cluster)
    uid = uid or uuid.uuid4().hex
    marker.parent.mkdir(parents=True, exist_ok=True)
    content = {"cluster": cluster, "project": str(paths.ROOT), "id": uid, "engine": docker.identity()}
    marker.write_text(json.dumps(content) + "\n")
    return uid


def cluster_uid(marker: Path) -> str | None:
    """The id in the marker, None without one."""
    try:
        return str(json.loads(marker.read_text())["id"])
    except (FileNotFoundError, json.JSONDecodeError, KeyError):
        return None


def nodes(cluster: str) -> list[Node]:
    """`docker inspect` of the cluster's nodes, stopped ones included; the control plane first.

    Raises AnotherEngineError where the cluster was made in another engine, instead of returning no nodes, EngineError
    where no engine answers, and CommandError.
    """
    found = docker.labelled(f"{LABEL}={cluster}")
    if not found:
        engine_record.refuse_another(cluster, paths.marker(cluster))
    return sorted(found, key=lambda node: (not is_control_plane(node), node_name(node)))


def node_name(node: Node) -> str:
    """The container's name, which is the node's in Kubernetes, too."""
    return str(node["Name"]).lstrip("/")


def is_control_plane(node: Node) -> bool:
    """Whether a node runs the API server, by kind's label."""
    return bool((node["Config"].get("Labels") or {}).get(ROLE) == "control-plane")


def mounts_marker(node: Node, marker: Path) -> bool:
    """Whether a node mounts the file `marker` where we mount ours."""
    return any(
        mount.get("Destination") == OWNER and mount.get("Source") == str(marker) for mount in node["Mounts"]
    )


def are_ours(found: list[Node], marker: Path) -> bool:
    """Whether every node in `found` mounts our `marker` and the marker is still there."""
    return cluster_uid(marker) is not None and all(mounts_marker(node, marker) for node in found)


def own_nodes(cluster: str, uid: str | None = None) -> list[Node]:
    """The nodes of our cluster of that name; empty when it is gone, or another's.

    A cluster without its control plane is gone: all that it held lay there. With the `uid` from the state, a marker
    file that was deleted is written again; one of release 0.1 gets the engine that it lacks.
    """
    found, marker = nodes(cluster), paths.marker(cluster)
    known = cluster_uid(marker) if marker.exists() else uid
    if (
        found
        and known
        and not engine_record.of(marker)
        and all(mounts_marker(node, marker) for node in found)
    ):
        write_marker(cluster, known)
    return found if are_ours(found, marker) and any(map(is_control_plane, found)) else []


def refuse_foreign(cluster: str) -> list[Node]:
    """The cluster's nodes, all ours. Raises ForeignClusterError, and touches nothing, when they are not."""
    found = nodes(cluster)
    if found and not are_ours(found, paths.marker(cluster)):
        raise ForeignClusterError(_refusal(cluster))
    return found


def refuse_others(cluster: str) -> None:
    """Raises ForeignClusterError for nodes that another clone, or somebody by hand, has made.

    Nodes that mount the place of our marker are not refused: the state can tell their id where that file was deleted.
    """
    marker = paths.marker(cluster)
    if not all(mounts_marker(node, marker) for node in nodes(cluster)):
        raise ForeignClusterError(_refusal(cluster))


def _refusal(cluster: str) -> str:
    return (
        f"there is a kind cluster named {cluster} that this clone ({paths.ROOT}) did not make; it is left alone.\n"
        f"  fix: choose another name with `trainstack:cluster: {{name: ...}}`, "
        f"or remove that cluster yourself: kind delete cluster --name {cluster}"
    )
