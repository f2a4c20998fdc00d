"""Whose is a kind cluster of a given name, in which engine is it, and was its creation finished?

Before `kind create` we write a marker file, and mount that very file into every node. A cluster is ours when its
nodes mount our clone's marker, even one that a killed run left half made. A cluster of another clone, or one made by
hand, is not ours. Another container engine without the cluster's nodes proves nothing.

The marker alone says whether the creation was finished. It says so once the nodes are Ready and the state has the
cluster; from then on other people may keep their work in it.
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
from infra.agreed import ProgramError
from infra.clusters.kind.config import owner_file

LABEL = "io.x-k8s.kind.cluster"
ROLE = "io.x-k8s.kind.role"

Node = dict[str, Any]


class ForeignClusterError(ProgramError):
    """A kind cluster of our name exists and is not ours."""


class AnotherEngineError(ProgramError):
    """The engine that answers is not the one that the cluster was made in."""


class Standing(StrEnum):
    """What the engine and the marker say of the clusters of one name.

    A cluster without its control plane has lost all that it held: only REMAINS of it are there. UNTOLD: the nodes mount
    our marker, and the file is missing or damaged.
    """

    NONE = "none"
    UNFINISHED = "unfinished"
    REMAINS = "remains"
    FINISHED = "finished"
    UNTOLD = "untold"
    OTHERS = "others"


@dataclass(frozen=True)
class Marker:
    """What the marker file of a cluster says.

    Parameters:
        uid: the cluster's id; one that is made again has another.
        engine: `id` and `host` of the container engine that holds it; empty in markers of release 0.1.
        finished: whether its creation was. Older markers do not say it, and count as finished.
    """

    uid: str
    engine: Mapping[str, str] = field(default_factory=dict)
    finished: bool = True


def read_marker(cluster: str) -> Marker | None:
    """What the marker says; None where there is none, or none that can be read."""
    try:
        found = json.loads(paths.marker(cluster).read_bytes())
        return Marker(str(found["id"]), dict(found.get("engine") or {}), found.get("finished") is not False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def begin(cluster: str) -> str:
    """Mark the cluster as unfinished, before it is made. Returns its id."""
    marker = Marker(uuid.uuid4().hex, docker.identity(), finished=False)
    _write(cluster, marker)
    return marker.uid


def finish(cluster: str, uid: str) -> None:
    """Mark the cluster as finished, where the marker is of the one with this id. Call it once the state has that."""
    marker = read_marker(cluster)
    if marker and marker.uid == uid and not marker.finished:
        _write(cluster, replace(marker, finished=True))


def adopt(cluster: str) -> None:
    """Write a missing or damaged marker again, for whoever says that the cluster is theirs."""
    found = nodes(cluster)
    if read_marker(cluster) is None and found and all(mounts_marker(node, cluster) for node in found):
        _write(cluster, Marker(uuid.uuid4().hex, docker.identity()))


def _write(cluster: str, marker: Marker) -> None:
    """A crash or a power cut leaves the old marker or the new one, none that is torn."""
    file = paths.marker(cluster)
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "cluster": cluster,
        "project": str(paths.ROOT),
        "id": marker.uid,
        "engine": dict(marker.engine),
        "finished": marker.finished,
    }
    fresh = file.with_name(f".{file.name}")
    with fresh.open("w") as handle:
        handle.write(json.dumps(content) + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    fresh.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def nodes(cluster: str) -> list[Node]:
    """`docker inspect` of the cluster's nodes, stopped ones included; the control plane first.

    Raises AnotherEngineError where the cluster was made in another engine, instead of returning no nodes, EngineError
    where no engine answers, and CommandError.
    """
    found = docker.labelled(f"{LABEL}={cluster}")
    if not found:
        _refuse_another_engine(cluster)
    return sorted(found, key=lambda node: (not is_control_plane(node), node_name(node)))


def _refuse_another_engine(cluster: str) -> None:
    """Raises AnotherEngineError where the engine that answers differs from the recorded one by its id and its host.

    With the same host it was made again in the same place: what the old one held is gone.
    """
    recorded = marker.engine if (marker := read_marker(cluster)) else {}
    if not recorded.get("id"):
        return
    present = docker.identity()
    if any(present[key] == recorded[key] for key in ("id", "host")):
        return
    raise AnotherEngineError(
        f"cluster {cluster} was made in the container engine at {recorded['host']}, and the one at {present['host']} "
        "answers now; nothing was touched.\n"
        f"  fix: export DOCKER_HOST={recorded['host']}; or, where that engine is gone for good, "
        f"rm {paths.marker(cluster)}"
    )


def node_name(node: Node) -> str:
    """The container's name, which is the node's in Kubernetes, too."""
    return str(node["Name"]).lstrip("/")


def is_control_plane(node: Node) -> bool:
    """Whether a node runs the API server, by kind's label."""
    return bool((node["Config"].get("Labels") or {}).get(ROLE) == "control-plane")


def mounts_marker(node: Node, cluster: str) -> bool:
    """Whether a node mounts the marker of this clone's `cluster`."""
    return any(mount.get("Source") == str(paths.marker(cluster)) for mount in node["Mounts"])


def was_made_by(node: Node, uid: str) -> bool:
    """Whether a node was made by the creation that gave its cluster this id. Older nodes do not say it."""
    return any(mount.get("Destination") == owner_file(uid) for mount in node["Mounts"])


def standing(cluster: str) -> Standing:
    """What is there of that name. Raises as `nodes` does."""
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
    """The nodes of our cluster of that name; empty when it is gone, or another's.

    A node that somebody has added is none of ours, and proves nothing. A cluster without its control plane is gone: all
    that it held lay there.

    Parameters:
        uid: the cluster's id where the state has it. The marker then gets what it lacks: it is written again where it
            was deleted or damaged, and says that the cluster is finished. The cluster in the state is gone where an
            unfinished one has taken its place.
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
    """Raises ForeignClusterError, and touches nothing, for nodes that are not all ours.

    Parameters:
        uid: the cluster's id where the state has it: then the marker file may be missing or damaged.
    """
    found = nodes(cluster)
    told = uid or read_marker(cluster)
    if found and not (told and all(mounts_marker(node, cluster) for node in found)):
        raise foreign(cluster)


def refuse_others(cluster: str) -> None:
    """Raises ForeignClusterError for nodes that another clone, or somebody by hand, has made.

    Nodes that mount the place of our marker are not refused: the state can tell their id where that file was deleted.
    """
    if not all(mounts_marker(node, cluster) for node in nodes(cluster)):
        raise foreign(cluster)


def foreign(cluster: str) -> ForeignClusterError:
    """What to do about a cluster of that name that is not ours."""
    return ForeignClusterError(
        f"there is a kind cluster named {cluster} that this clone ({paths.ROOT}) did not make; it is left alone.\n"
        f"  fix: choose another name with `trainstack:cluster: {{name: ...}}`, "
        f"or remove that cluster yourself: kind delete cluster --name {cluster}"
    )
