"""Who owns the kind cluster of a given name, in which engine it is, and whether its creation was finished.

Before `kind create` we write a marker file, and mount this file into every node. A cluster is ours if its nodes mount
our clone's marker, even an unfinished cluster of a killed run. A cluster of another clone, or one created by hand, is
not ours. If another container engine has no such nodes, that proves nothing.

Only the marker says whether the creation was finished. We note this in the marker once the nodes are Ready and the
state has the cluster. From then on other people may keep their work in the cluster.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from infra import docker, paths
from infra.agreed import ProgramError, mapping
from infra.atomic_file import write_whole
from infra.clusters.kind.config import owner_file

LABEL = "io.x-k8s.kind.cluster"
ROLE = "io.x-k8s.kind.role"
KEYS = ("cluster", "project", "id", "engine", "finished")
"""The keys of kind in a marker file."""

Node = dict[str, Any]


class ForeignClusterError(ProgramError):
    """A kind cluster of this name exists and is not ours."""


class AnotherEngineError(ProgramError):
    """The engine that answers is not the engine in which the cluster was created."""


class Standing(StrEnum):
    """What the engine and the marker say about the cluster of one name.

    REMAINS: nodes without their control plane; the cluster's contents are lost. UNTOLD: the nodes mount our marker, but
    the file is missing or damaged.
    """

    NONE = "none"
    UNFINISHED = "unfinished"
    REMAINS = "remains"
    FINISHED = "finished"
    UNTOLD = "untold"
    OTHERS = "others"


@dataclass(frozen=True)
class Marker:
    """The content of a cluster's marker file.

    Parameters:
        uid: the cluster's id; a replaced cluster has another id.
        engine: `id` and `host` of its container engine; empty in markers of release 0.1.
        finished: whether its creation was finished. Older markers do not say it, and count as finished.
    """

    uid: str
    engine: Mapping[str, str] = field(default_factory=dict)
    finished: bool = True


def read_marker(cluster: str) -> Marker | None:
    """The marker's content; None if it is missing or cannot be read."""
    try:
        found = json.loads(paths.marker(cluster).read_bytes())
        return Marker(str(found["id"]), dict(found.get("engine") or {}), found.get("finished") is not False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def begin(cluster: str) -> str:
    """Mark the cluster as unfinished, before its creation. Returns its id."""
    marker = Marker(uuid.uuid4().hex, docker.identity(), finished=False)
    _write(cluster, marker)
    return marker.uid


def finish(cluster: str, uid: str) -> None:
    """Mark the cluster as finished, if the marker has this id. Call it once the state has the cluster."""
    marker = read_marker(cluster)
    if marker and marker.uid == uid and not marker.finished:
        _write(cluster, replace(marker, finished=True))


def adopt(cluster: str) -> None:
    """Write a missing or damaged marker again, because the user says that the cluster is theirs."""
    found = nodes(cluster)
    if read_marker(cluster) is None and found and all(mounts_marker(node, cluster) for node in found):
        _write(cluster, Marker(uuid.uuid4().hex, docker.identity()))


def _write(cluster: str, marker: Marker) -> None:
    """Write the marker in one step: a crash or a power cut leaves the whole old or the whole new marker."""
    file = paths.marker(cluster)
    file.parent.mkdir(parents=True, exist_ok=True)
    values = (cluster, str(paths.ROOT), marker.uid, dict(marker.engine), marker.finished)
    content = mapping(file) | dict(zip(KEYS, values, strict=True))
    write_whole(file, f"{json.dumps(content)}\n")
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def nodes(cluster: str) -> list[Node]:
    """`docker inspect` of the cluster's nodes, stopped ones included; the control plane first.

    Raises AnotherEngineError instead of returning no nodes if the cluster was created in another engine, EngineError if
    no engine answers, and CommandError.
    """
    found = docker.labelled(f"{LABEL}={cluster}")
    if not found:
        _refuse_another_engine(cluster)
    return sorted(found, key=lambda node: (not is_control_plane(node), node_name(node)))


def _refuse_another_engine(cluster: str) -> None:
    """Raises AnotherEngineError if the engine that answers has another id and another host than the recorded one.

    Another id on the same host means a reinstalled engine: the containers of the old engine no longer exist.
    """
    recorded = marker.engine if (marker := read_marker(cluster)) else {}
    if not recorded.get("id"):
        return
    present = docker.identity()
    if any(present[key] == recorded[key] for key in ("id", "host")):
        return
    raise AnotherEngineError(
        f"cluster {cluster} was created in the container engine at {recorded['host']}, but the engine "
        f"at {present['host']} answers now; nothing was touched.\n"
        f"  fix: export DOCKER_HOST={recorded['host']}; or, if that engine no longer exists, "
        f"rm {paths.marker(cluster)}"
    )


def node_name(node: Node) -> str:
    """The container's name, which is also the node's name in Kubernetes."""
    return str(node["Name"]).lstrip("/")


def is_control_plane(node: Node) -> bool:
    """Whether a node runs the API server, by kind's label."""
    return bool((node["Config"].get("Labels") or {}).get(ROLE) == "control-plane")


def mounts_marker(node: Node, cluster: str) -> bool:
    """Whether a node mounts the marker of this clone's `cluster`."""
    return any(mount.get("Source") == str(paths.marker(cluster)) for mount in node["Mounts"])


def was_made_by(node: Node, uid: str) -> bool:
    """Whether a node was created with the cluster of this id. Older nodes do not say it."""
    return any(mount.get("Destination") == owner_file(uid) for mount in node["Mounts"])


def standing(cluster: str) -> Standing:
    """What exists of the cluster of that name. Raises as `nodes` does."""
    found, marker = nodes(cluster), read_marker(cluster)
    if not found:
        return Standing.NONE
    if not all(mounts_marker(node, cluster) for node in found):
        return Standing.OTHERS
    if marker is None:
        return Standing.UNTOLD
    if not marker.finished:
        return Standing.UNFINISHED
    return Standing.FINISHED if any(map(is_control_plane, found)) else Standing.REMAINS


def own_nodes(cluster: str, uid: str | None = None) -> list[Node]:
    """The nodes of our cluster of that name; empty if it does not exist, or is not ours.

    A node that somebody else added is not ours, and proves nothing. A cluster without its control plane counts as
    deleted: its contents were on the control plane.

    Parameters:
        uid: the cluster's id, if it is in the state. A deleted or damaged marker is then written again, as finished. If
            the marker names another, unfinished cluster, the cluster in the state no longer exists.
    """
    found, marker = [each for each in nodes(cluster) if mounts_marker(each, cluster)], read_marker(cluster)
    if not found:
        return []
    known = marker or (Marker(uid) if uid else None)
    if known is None or (uid and uid != known.uid and not known.finished):
        return []
    engine = known.engine or docker.identity()
    complete = replace(known, engine=engine, finished=known.finished or known.uid == uid)
    if complete != marker:
        _write(cluster, complete)
    return found if any(map(is_control_plane, found)) else []


def refuse_foreign(cluster: str, uid: str | None = None) -> None:
    """Raises ForeignClusterError, and touches nothing, if not all nodes are ours.

    Parameters:
        uid: the cluster's id, if it is in the state: then the marker file may be missing or damaged.
    """
    found = nodes(cluster)
    told = uid or read_marker(cluster)
    if found and not (told and all(mounts_marker(node, cluster) for node in found)):
        raise foreign(cluster)


def refuse_others(cluster: str) -> None:
    """Raises ForeignClusterError for nodes that another clone created, or somebody by hand.

    Nodes that mount our marker's path are allowed: if the marker was deleted, the state has the cluster's id.
    """
    if not all(mounts_marker(node, cluster) for node in nodes(cluster)):
        raise foreign(cluster)


def foreign(cluster: str) -> ForeignClusterError:
    """The error, with its fix, for a cluster of that name that is not ours."""
    return ForeignClusterError(
        f"a kind cluster named {cluster} exists that this clone ({paths.ROOT}) did not create; nothing was touched.\n"
        f"  fix: choose another name with `trainstack:cluster: {{name: NAME}}`, "
        f"or delete that cluster yourself: kind delete cluster --name {cluster}"
    )
