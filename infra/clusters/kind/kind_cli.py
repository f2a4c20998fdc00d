"""Makes, finds and removes a kind cluster with the kind CLI."""

from __future__ import annotations

import os
import socket
from typing import Any

import yaml

from infra import paths
from infra.clusters.kind import last_words, ownership, pod_network
from infra.clusters.kind.config import KindConfig, is_own_image, render
from infra.process import CommandError, output

READY_WAIT = "180s"


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
    """Make the cluster; what a killed run left of it is removed first.

    Returns the outputs of `read`. Raises ForeignClusterError, PortTakenError, and CommandError where kind fails.
    """
    if ownership.refuse_foreign(config.name):
        delete(config.name)
    if config.api_server_port:
        ensure_free(config.api_server_port)
    kubeconfig = paths.kubeconfig(config.name)
    for folder in (paths.models(config.stack), paths.DATA, kubeconfig.parent):
        folder.mkdir(parents=True, exist_ok=True)
    uid = ownership.write_marker(config.name)
    command = ["kind", "create", "cluster", "--config", "-", "--kubeconfig", str(kubeconfig)]
    command += ["--wait", READY_WAIT, "--retain", *(["--image", image] if image else [])]
    try:
        output(*command, stdin=yaml.safe_dump(render(config, is_own_image(image))))
    except CommandError as error:
        # kind would take them away together with what they have said.
        nodes = ownership.nodes(config.name)
        if not ownership.are_ours(nodes, paths.marker(config.name)):
            raise
        said = last_words.of(nodes)
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
    return outputs(name, ownership.cluster_uid(paths.marker(name)), nodes) if nodes else None


def outputs(name: str, uid: str | None, nodes: list[ownership.Node]) -> dict[str, Any]:
    """`instance` is the cluster's uid; `kubeconfig` is missing where its file is."""
    kubeconfig = paths.kubeconfig(name)
    found: dict[str, Any] = {"instance": uid, "nodes": [ownership.node_name(node) for node in nodes]}
    return found | ({"kubeconfig": kubeconfig.read_text()} if kubeconfig.exists() else {})


def delete(name: str) -> None:
    """Remove the cluster, its kubeconfig and, last, its marker. Missing is fine. Raises CommandError."""
    ownership.refuse_foreign(name)
    _delete_nodes(name)
    paths.kubeconfig(name).unlink(missing_ok=True)
    paths.marker(name).unlink(missing_ok=True)


def _delete_nodes(name: str) -> None:
    output("kind", "delete", "cluster", "--name", name, "--kubeconfig", str(paths.kubeconfig(name)))
