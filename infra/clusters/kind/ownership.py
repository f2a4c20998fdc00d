"""Whose is a kind cluster of a given name?

Before `kind create` we write a marker file, and mount that very file into every node. A cluster is ours when its nodes
mount our clone's marker; so also one half made by a run that was killed. One of another clone, or made by hand, is not.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from infra import docker
from infra.clusters.kind.config import OWNER

LABEL = "io.x-k8s.kind.cluster"


class ForeignClusterError(RuntimeError):
    """A kind cluster of our name exists and is not ours."""


def write_marker(marker: Path, cluster: str, project: Path) -> str:
    """A new random id for the cluster that is about to be made, written down first. Returns the id."""
    identity = uuid.uuid4().hex
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(json.dumps({"cluster": cluster, "project": str(project), "id": identity}) + "\n")
    return identity


def identity(marker: Path) -> str | None:
    """The id in the marker, None without one."""
    try:
        return str(json.loads(marker.read_text())["id"])
    except (FileNotFoundError, json.JSONDecodeError, KeyError):
        return None


def nodes(cluster: str) -> list[dict[str, Any]]:
    """`docker inspect` of the cluster's nodes, stopped ones included."""
    return docker.labelled(f"{LABEL}={cluster}")


def mounts_marker(node: dict[str, Any], marker: Path) -> bool:
    return any(
        mount.get("Destination") == OWNER and mount.get("Source") == str(marker) for mount in node["Mounts"]
    )


def ours(found: list[dict[str, Any]], marker: Path) -> bool:
    """Whether every node in `found` mounts our `marker` and the marker is still there."""
    return identity(marker) is not None and all(mounts_marker(node, marker) for node in found)


def refuse_foreign(cluster: str, marker: Path, project: Path) -> list[dict[str, Any]]:
    """The cluster's nodes, all ours. Raises ForeignClusterError, and touches nothing, when they are not."""
    found = nodes(cluster)
    if found and not ours(found, marker):
        raise ForeignClusterError(
            f"there is a kind cluster named {cluster} that this clone ({project}) did not make; it is left alone.\n"
            f"  fix: choose another name with `trainstack:cluster: {{name: ...}}`, "
            f"or remove that cluster yourself: kind delete cluster --name {cluster}"
        )
    return found
