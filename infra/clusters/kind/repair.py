"""Repairs an existing kind cluster: starts its nodes, writes its kubeconfig file, connects its pod networks.

A stopped node's container keeps its disk, so nothing of the cluster is lost.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra import docker, paths
from infra.agreed import ProgramError
from infra.clusters.kind import ownership, pod_network
from infra.process import CommandError, output

READY_S = 180
SETTLED_S = 120
LOOK_S = 1.0
# State of a container in the engine -> the command that makes it run. `restarting` needs none.
STARTED_BY = {"created": "start", "exited": "start", "dead": "start", "paused": "unpause"}

Say = Callable[[str], None]


class NotReadyError(ProgramError):
    """The nodes run, but the API server does not answer."""


def is_working(nodes: list[ownership.Node], kubeconfig: Path) -> bool:
    """Whether all nodes run and the kubeconfig file exists."""
    return kubeconfig.exists() and not any(map(_has_to_be_started, nodes))


def repair(name: str, say: Say, uid: str | None = None) -> bool:
    """Make our cluster `name` work again; True if something was repaired.

    Parameters:
        name: of the cluster. A cluster that is not ours, or is unfinished, is left unchanged.
        say: gets a line for each repair.
        uid: the cluster's id in the state.

    Raises NotReadyError if the API server does not answer, CommandError if a node cannot be started.
    """
    nodes, kubeconfig = ownership.own_nodes(name, uid), paths.kubeconfig(name)
    marker = ownership.read_marker(name)
    if not nodes or marker is None or not marker.finished:
        return False
    begun = datetime.now(UTC)
    stopped = [ownership.node_name(node) for node in nodes if _has_to_be_started(node)]
    for node in nodes:
        _start(node, say)
    written = _restore_kubeconfig(name, kubeconfig, say)
    if stopped or written:
        _wait_for_api(name, kubeconfig)
    if kubeconfig.exists():
        # A node that was started may have another address.
        pod_network.connect(ownership.own_nodes(name) if stopped else nodes, kubeconfig)
    if stopped:
        _wait_for_pods(kubeconfig, begun)
    return bool(stopped or written)


def _has_to_be_started(node: ownership.Node) -> bool:
    return node["State"]["Status"] in STARTED_BY


def _start(node: ownership.Node, say: Say) -> None:
    name, status = ownership.node_name(node), node["State"]["Status"]
    if status in STARTED_BY:
        output("docker", STARTED_BY[status], name)
        say(f"node {name} was {status}: started")


def _restore_kubeconfig(name: str, kubeconfig: Path, say: Say) -> bool:
    """Write the file if it is missing. A cluster of an older release may be unfinished: then it has no kubeconfig."""
    if kubeconfig.exists():
        return False
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    command = ("kind", "export", "kubeconfig", "--name", name, "--kubeconfig", str(kubeconfig))
    try:
        output(*command)
    except CommandError:
        if _has_kubeconfig(name):
            raise
        return False
    os.chmod(kubeconfig, 0o600)
    say(f"kubeconfig of cluster {name} was missing: written again")
    return True


def _has_kubeconfig(name: str) -> bool:
    control_plane = ownership.node_name(ownership.own_nodes(name)[0])
    try:
        docker.execute(control_plane, "test", "-e", "/etc/kubernetes/admin.conf")
    except CommandError:
        return False
    return True


def _wait_for_api(name: str, kubeconfig: Path) -> None:
    if not kubeconfig.exists():
        return
    ready = ("kubectl", "--kubeconfig", str(kubeconfig), "get", "--raw", "/readyz", "--request-timeout", "5s")
    deadline = time.monotonic() + READY_S
    while True:
        try:
            output(*ready)
            return
        except CommandError as error:
            if time.monotonic() > deadline:
                raise NotReadyError(
                    f"the nodes of cluster {name} run, but its API server did not answer for {READY_S} s; nothing was "
                    f"replaced.\n{error}\n  fix: `docker logs {name}-control-plane` shows what the node does"
                ) from None
        time.sleep(LOOK_S)


def _wait_for_pods(kubeconfig: Path, begun: datetime) -> None:
    """Wait until the pods of ReplicaSets, DaemonSets and StatefulSets have started again, at most SETTLED_S seconds.

    Until then the API server shows the state of pods from before the stop, and webhooks in these pods do not answer.
    """
    words = ("get", "pods", "--all-namespaces", "--output", "json")
    deadline = time.monotonic() + SETTLED_S
    while time.monotonic() < deadline:
        try:
            listed = json.loads(output("kubectl", "--kubeconfig", str(kubeconfig), *words))["items"]
            if all(_started_after(pod, begun) for pod in listed):
                return
        except CommandError:
            pass  # the API server may stop answering again while it starts
        time.sleep(LOOK_S)


def _started_after(pod: dict[str, Any], begun: datetime) -> bool:
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences") or []}
    if not owners & {"ReplicaSet", "DaemonSet", "StatefulSet"}:
        return True
    statuses = pod["status"].get("containerStatuses") or []
    running = [
        (status["state"].get("running") or {}).get("startedAt") for status in statuses if status["ready"]
    ]
    # The API has whole seconds.
    earliest = begun.replace(microsecond=0)
    fresh = [start for start in running if start and datetime.fromisoformat(start) >= earliest]
    return bool(statuses) and len(fresh) == len(statuses)
