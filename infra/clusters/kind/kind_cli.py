"""Creates, finds and deletes a kind cluster with the kind CLI."""

from __future__ import annotations

import os
import re
import socket
from typing import Any

import yaml

from infra import paths
from infra.clusters import replacement
from infra.clusters.kind import ownership, pod_network, predecessor, repair
from infra.clusters.kind.config import KindConfig, is_own_image, render
from infra.clusters.kind.ownership import Standing
from infra.clusters.kind.predecessor import Step
from infra.dynamic import show
from infra.process import CommandError, output

READY_WAIT = "180s"
LINES = 8
COLOURS = re.compile(r"\x1b\[[0-9;]*m|\r")
# A message of systemd or the kubelet -> the fix. Instances of inotify are counted per user, and root owns every node:
# https://kind.sigs.k8s.io/docs/user/known-issues/#pod-errors-due-to-too-many-open-files
FIXES = {
    "Too many open files": "sudo sysctl -w fs.inotify.max_user_instances=512, or take another cluster down",
    "no space left on device": "free space on the disk of the container engine",
}


class PortTakenError(RuntimeError):
    """The configured port of the API server is in use."""


def ensure_free(port: int) -> None:
    """Raises PortTakenError if a program listens on 127.0.0.1:`port`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PortTakenError(
                f"trainstack:cluster.apiServerPort = {port} is in use on this machine ({error.strerror}).\n"
                "  fix: stop the program that listens there, use another port, or remove the key to use any free port"
            ) from None


def create(config: KindConfig, image: str | None) -> dict[str, Any]:
    """Create the cluster, or take over an existing one; `predecessor` decides.

    Returns the outputs of `read`. Raises ForeignClusterError and ReplacementRefusedError before anything is touched,
    PortTakenError, and CommandError if kind fails.
    """
    standing = ownership.standing(config.name)
    match predecessor.step(standing):
        case Step.REFUSE:
            raise predecessor.refusal(standing, config.name, config.stack)
        case Step.ADOPT:
            return _adopt(config)
        case Step.CLEAR:
            if standing is Standing.FINISHED:
                replacement.ensure_allowed(config.name, config.stack, ["REPLACE_CLUSTER=yes"], show)
            delete(config.name)
    if config.api_server_port:
        ensure_free(config.api_server_port)
    return _make(config, image)


def _adopt(config: KindConfig) -> dict[str, Any]:
    """Take over the cluster: the user who passes the owner id lost the state, not the cluster."""
    ownership.adopt(config.name)
    repair.repair(config.name, show)
    found = read(config.name)
    if found is None:
        raise ownership.foreign(config.name)
    return found


def _make(config: KindConfig, image: str | None) -> dict[str, Any]:
    """Run `kind create`. The marker stays unfinished until the state has the cluster."""
    kubeconfig = paths.kubeconfig(config.name)
    for folder in (paths.models(config.stack), paths.DATA, kubeconfig.parent):
        folder.mkdir(parents=True, exist_ok=True)
    uid = ownership.begin(config.name)
    command = ["kind", "create", "cluster", "--config", "-", "--kubeconfig", str(kubeconfig)]
    command += ["--wait", READY_WAIT, "--retain", *(["--image", image] if image else [])]
    try:
        output(*command, stdin=yaml.safe_dump(render(config, is_own_image(image), uid)))
    except CommandError as error:
        # With --retain, kind keeps the nodes for their logs. So we delete them, except somebody else's nodes.
        nodes = ownership.nodes(config.name)
        if not all(ownership.was_made_by(node, uid) for node in nodes):
            raise
        said = last_words(nodes)
        _delete_nodes(config.name)
        raise CommandError(f"{error}\n{said}") from None
    os.chmod(kubeconfig, 0o600)
    nodes = ownership.own_nodes(config.name)
    if not nodes:
        raise CommandError(f"kind created cluster {config.name}, but its nodes do not exist")
    pod_network.connect(nodes, kubeconfig)
    return outputs(config.name, uid, nodes)


def read(name: str, uid: str | None = None) -> dict[str, Any] | None:
    """The outputs of our cluster, running or not; None if the engine says that it does not exist.

    Parameters:
        name: of the cluster.
        uid: its id in the state.
    """
    nodes = ownership.own_nodes(name, uid)
    marker = ownership.read_marker(name)
    return outputs(name, marker.uid, nodes) if nodes and marker else None


def outputs(name: str, uid: str, nodes: list[ownership.Node]) -> dict[str, Any]:
    """`instance` is the cluster's uid; `kubeconfig` is missing if its file is missing."""
    kubeconfig = paths.kubeconfig(name)
    found: dict[str, Any] = {"instance": uid, "nodes": [ownership.node_name(node) for node in nodes]}
    return found | ({"kubeconfig": kubeconfig.read_text()} if kubeconfig.exists() else {})


def delete(name: str, uid: str | None = None) -> None:
    """Delete the cluster, its kubeconfig and, last, its marker; each may be missing. Raises CommandError.

    Raises ForeignClusterError, before anything is touched, for a cluster that is not ours.

    Parameters:
        uid: its id as the state knows it.
    """
    ownership.refuse_foreign(name, uid)
    _delete_nodes(name)
    paths.forget(name, ownership.KEYS)


def _delete_nodes(name: str) -> None:
    output("kind", "delete", "cluster", "--name", name, "--kubeconfig", str(paths.kubeconfig(name)))


def last_words(nodes: list[ownership.Node]) -> str:
    """The last lines of each node of a failed cluster, and the fix for known errors; empty if there is no node."""
    told, whole = [], ""
    for node in nodes:
        name = ownership.node_name(node)
        try:
            said = COLOURS.sub("", output("docker", "logs", name))
        except CommandError:
            continue
        whole += said
        last = [line for line in said.splitlines() if line.strip()][-LINES:]
        told += [f"the last lines of node {name}:", *(f"  | {line}" for line in last)]
    told += [f"  fix: {fix}" for word, fix in FIXES.items() if word.lower() in whole.lower()]
    return "\n".join(told)
