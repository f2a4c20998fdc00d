"""Where the registry that belongs to a cluster is reached, by the nodes and by this machine."""

from __future__ import annotations

from infra.process import output

PORT = 5000
# MicroK8s' add-on `registry` (microk8s.io/docs/registry-built-in).
MICROK8S = "localhost:32000"


def kind_name(cluster: str) -> str:
    """The registry's container beside the kind cluster of that name."""
    return f"{cluster}-registry"


def address_for_nodes(name: str) -> str:
    """Where the nodes of a kind cluster reach its registry."""
    return f"{name}:{PORT}"


def address_for_host(name: str) -> str:
    """Where this machine reaches a kind cluster's registry: 127.0.0.1:port.

    The port changes when the container is restarted or joins a network. Raises CommandError. `name`: the container's.
    """
    return output("docker", "port", name, f"{PORT}/tcp").split()[0]
