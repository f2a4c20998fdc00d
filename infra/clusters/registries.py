"""The addresses of a cluster's registry, for the nodes and for this machine."""

from __future__ import annotations

from infra.process import output

PORT = 5000
# MicroK8s' add-on `registry` (microk8s.io/docs/registry-built-in).
MICROK8S = "localhost:32000"


def kind_name(cluster: str) -> str:
    """The name of the registry's container for the kind cluster of that name."""
    return f"{cluster}-registry"


def address_for_nodes(name: str) -> str:
    """The registry's address for the nodes of a kind cluster."""
    return f"{name}:{PORT}"


def address_for_host(name: str) -> str:
    """The address of a kind cluster's registry for this machine: 127.0.0.1:port.

    The port changes when the container is restarted or joins a network. Raises CommandError. `name`: the container's.
    """
    return output("docker", "port", name, f"{PORT}/tcp").split()[0]
