"""Makes, finds and removes a kind cluster with the kind CLI."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import yaml

from infra import docker
from infra.clusters.kind import ownership
from infra.clusters.kind.config import KindConfig, render
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


def create(config: KindConfig, image: str | None, kubeconfig: Path, project: Path) -> dict[str, Any]:
    """Make the cluster; what a killed run left of it is removed first. Returns the outputs of `read`."""
    marker = Path(config.marker)
    left_over = ownership.refuse_foreign(config.name, marker, project)
    if left_over:
        delete(config.name, kubeconfig, marker, project)
    if config.api_server_port:
        ensure_free(config.api_server_port)
    for folder in (Path(config.models), Path(config.data), kubeconfig.parent):
        folder.mkdir(parents=True, exist_ok=True)
    identity = ownership.write_marker(marker, config.name, project)
    command = ["kind", "create", "cluster", "--quiet", "--config", "-", "--kubeconfig", str(kubeconfig)]
    command += ["--wait", READY_WAIT, *(["--image", image] if image else [])]
    output(*command, stdin=yaml.safe_dump(render(config)))
    os.chmod(kubeconfig, 0o600)
    if config.own_image and config.workers:
        connect_pods(kubeconfig)
    found = read(config.name, kubeconfig, marker)
    if found is None or found["instance"] != identity:
        raise CommandError(f"kind made {config.name}, and then it was gone")
    return found


def read(name: str, kubeconfig: Path, marker: Path) -> dict[str, Any] | None:
    """Instance, nodes and kubeconfig of a running cluster of ours, None when there is none."""
    found = ownership.nodes(name)
    running = [node for node in found if node["State"]["Running"]]
    if not found or len(running) < len(found) or not ownership.ours(found, marker) or not kubeconfig.exists():
        return None
    return {
        "instance": ownership.identity(marker),
        "nodes": [str(node["Name"]).lstrip("/") for node in found],
        "kubeconfig": kubeconfig.read_text(),
    }


def delete(name: str, kubeconfig: Path, marker: Path, project: Path) -> None:
    """Remove the cluster, its kubeconfig and, last, its marker. Missing is fine."""
    ownership.refuse_foreign(name, marker, project)
    output("kind", "delete", "cluster", "--quiet", "--name", name, "--kubeconfig", str(kubeconfig))
    kubeconfig.unlink(missing_ok=True)
    marker.unlink(missing_ok=True)


def routes(nodes: list[dict[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """Node -> (pod network, address) of each other node, from `kubectl get nodes`."""
    known = {
        node["metadata"]["name"]: (
            node["spec"]["podCIDR"],
            next(entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP"),
        )
        for node in nodes
    }
    return {name: [there for other, there in known.items() if other != name] for name in known}


def connect_pods(kubeconfig: Path) -> None:
    """Route between the nodes' pod networks: the pod network of our node image ends at the node."""
    listed = json.loads(
        output("kubectl", "--kubeconfig", str(kubeconfig), "get", "nodes", "--output", "json")
    )
    for node, entries in routes(listed["items"]).items():
        for network, address in entries:
            docker.execute(node, "ip", "route", "replace", network, "via", address)
