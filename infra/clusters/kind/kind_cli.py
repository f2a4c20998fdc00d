"""Makes, finds and removes a kind cluster with the kind CLI."""

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
# A word of systemd's or the kubelet's -> what to do. Instances of inotify are counted for each user, and every node is
# root's: https://kind.sigs.k8s.io/docs/user/known-issues/#pod-errors-due-to-too-many-open-files
FIXES = {
    "Too many open files": "sudo sysctl -w fs.inotify.max_user_instances=512, or take another cluster down",
    "no space left on device": "free some space on the disk of the container engine",
}


class PortTakenError(RuntimeError):
    """The port asked for the API server is in use."""


def ensure_free(port: int) -> None:
    """Raises PortTakenError when something listens on 127.0.0.1:`port`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PortTakenError(
                f"trainstack:cluster.apiServerPort = {port} is in use on this machine ({error.strerror}).\n"
                "  fix: stop what listens there, take another port, or remove the key to get any free one"
            ) from None


def create(config: KindConfig, image: str | None) -> dict[str, Any]:
    """Make the cluster, or take over the one that is there; `predecessor` says which.

    Returns the outputs of `read`. Raises ForeignClusterError and ReplacementRefusedError, with nothing touched,
    PortTakenError, and CommandError where kind fails.
    """
    standing = ownership.standing(config.name)
    match predecessor.step(standing):
        case Step.REFUSE:
            raise predecessor.refusal(standing, config.name, config.stack)
        case Step.ADOPT:
            return _adopt(config)
        case Step.CLEAR:
            if standing is Standing.FINISHED:
                replacement.ensure_allowed(config.name, config.stack, ["as was asked"], show)
            delete(config.name)
    if config.api_server_port:
        ensure_free(config.api_server_port)
    return _make(config, image)


def _adopt(config: KindConfig) -> dict[str, Any]:
    """Whoever gives the owner's id back has lost the state, not the cluster."""
    ownership.adopt(config.name)
    repair.repair(config.name, show)
    found = read(config.name)
    if found is None:
        raise ownership.foreign(config.name)
    return found


def _make(config: KindConfig, image: str | None) -> dict[str, Any]:
    """Run `kind create`. The marker stays unfinished: whoever knows that the state has the cluster finishes it."""
    kubeconfig = paths.kubeconfig(config.name)
    for folder in (paths.models(config.stack), paths.DATA, kubeconfig.parent):
        folder.mkdir(parents=True, exist_ok=True)
    uid = ownership.begin(config.name)
    command = ["kind", "create", "cluster", "--config", "-", "--kubeconfig", str(kubeconfig)]
    command += ["--wait", READY_WAIT, "--retain", *(["--image", image] if image else [])]
    try:
        output(*command, stdin=yaml.safe_dump(render(config, is_own_image(image), uid)))
    except CommandError as error:
        # kind would take them away together with what they have said. Somebody else's are not ours to delete.
        nodes = ownership.nodes(config.name)
        if not all(ownership.was_made_by(node, uid) for node in nodes):
            raise
        said = last_words(nodes)
        _delete_nodes(config.name)
        raise CommandError(f"{error}\n{said}") from None
    os.chmod(kubeconfig, 0o600)
    nodes = ownership.own_nodes(config.name)
    if not nodes:
        raise CommandError(f"kind made {config.name}, and then it was gone")
    pod_network.connect(nodes, kubeconfig)
    return outputs(config.name, uid, nodes)


def read(name: str, uid: str | None = None) -> dict[str, Any] | None:
    """The outputs of our cluster, running or not; None when it is gone, which the engine has to say.

    Parameters:
        name: of the cluster.
        uid: its id as the state knows it.
    """
    nodes = ownership.own_nodes(name, uid)
    marker = ownership.read_marker(name)
    return outputs(name, marker.uid, nodes) if nodes and marker else None


def outputs(name: str, uid: str, nodes: list[ownership.Node]) -> dict[str, Any]:
    """`instance` is the cluster's uid; `kubeconfig` is missing where its file is."""
    kubeconfig = paths.kubeconfig(name)
    found: dict[str, Any] = {"instance": uid, "nodes": [ownership.node_name(node) for node in nodes]}
    return found | ({"kubeconfig": kubeconfig.read_text()} if kubeconfig.exists() else {})


def delete(name: str, uid: str | None = None) -> None:
    """Remove the cluster, its kubeconfig and, last, its marker. Missing is fine. Raises CommandError.

    Raises ForeignClusterError, with nothing touched, for a cluster that is not ours.

    Parameters:
        uid: its id as the state knows it.
    """
    ownership.refuse_foreign(name, uid)
    _delete_nodes(name)
    paths.kubeconfig(name).unlink(missing_ok=True)
    paths.marker(name).unlink(missing_ok=True)


def _delete_nodes(name: str) -> None:
    output("kind", "delete", "cluster", "--name", name, "--kubeconfig", str(paths.kubeconfig(name)))


def last_words(nodes: list[ownership.Node]) -> str:
    """The last lines of each node of a failed cluster, and how to mend what is known; empty where there is no node."""
    told, whole = [], ""
    for node in nodes:
        name = ownership.node_name(node)
        try:
            said = COLOURS.sub("", output("docker", "logs", name))
        except CommandError:
            continue
        whole += said
        last = [line for line in said.splitlines() if line.strip()][-LINES:]
        told += [f"node {name} said last:", *(f"  | {line}" for line in last)]
    told += [f"  fix: {fix}" for word, fix in FIXES.items() if word.lower() in whole.lower()]
    return "\n".join(told)
