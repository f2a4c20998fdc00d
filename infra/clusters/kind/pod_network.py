"""Routes between the pod networks of nodes with our own image: without them, a pod reaches only pods of its node.

A restarted node loses its routes, and may get another address.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra import docker
from infra.clusters.kind import ownership
from infra.clusters.kind.config import is_own_image
from infra.clusters.kind.registry import NETWORK
from infra.process import output


def connect(nodes: list[ownership.Node], kubeconfig: Path) -> None:
    """Set on each node the routes to the other nodes' pods. One node, or a published image, needs none.

    Raises CommandError.

    Parameters:
        kubeconfig: the file that reaches the cluster as an administrator.
    """
    if len(nodes) < 2 or not is_own_image(nodes[0]["Config"]["Image"]):
        return
    command = ("kubectl", "--kubeconfig", str(kubeconfig), "get", "nodes", "--output", "json")
    networks = pod_networks(json.loads(output(*command))["items"])
    for node, entries in routes(networks, addresses(nodes)).items():
        for network, address in entries:
            docker.execute(node, "ip", "route", "replace", network, "via", address)


def pod_networks(listed: list[dict[str, Any]]) -> dict[str, str]:
    """Node -> its pod network, from `kubectl get nodes`."""
    return {node["metadata"]["name"]: node["spec"]["podCIDR"] for node in listed if "podCIDR" in node["spec"]}


def addresses(nodes: list[ownership.Node]) -> dict[str, str]:
    """Node -> its current address, from the engine: the API server learns a new address only later."""
    return {
        ownership.node_name(node): node["NetworkSettings"]["Networks"][NETWORK]["IPAddress"] for node in nodes
    }


def routes(networks: Mapping[str, str], addresses: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Node -> (pod network, address) of each other node."""
    return {
        node: [
            (networks[other], addresses[other]) for other in addresses if other != node and other in networks
        ]
        for node in addresses
    }
