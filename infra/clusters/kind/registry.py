"""The image registry of a kind cluster: one container, reached by the nodes by name and by us on a local port."""

from __future__ import annotations

from typing import Any

from infra import docker
from infra.clusters.kind.config import CERTS, hosts_toml
from infra.process import CommandError, output

PORT = 5000
NETWORK = "kind"
# Shared by all clusters, so that a new one finds the layers that an older one was sent.
VOLUME = "trainstack-registry"
PROJECT = "trainstack.project"


class ForeignRegistryError(RuntimeError):
    """A container of our registry's name exists and is not ours."""


def create(name: str, image: str, project: str) -> dict[str, Any]:
    """Start the registry, replacing one of ours. Returns the outputs of `read`."""
    if not delete(name, project):
        raise ForeignRegistryError(
            f"a container named {name} exists that this clone did not make; it is left alone.\n"
            f"  fix: choose another cluster name, or remove it yourself: docker rm -f {name}"
        )
    output(
        *("docker", "run", "--detach", "--name", name, "--label", f"{PROJECT}={project}"),
        *("--publish", f"127.0.0.1::{PORT}", "--volume", f"{VOLUME}:/var/lib/registry"),
        *("--env", "OTEL_TRACES_EXPORTER=none", image),
    )
    found = read(name, project)
    if found is None:
        raise CommandError(f"the registry {name} ended at once: docker logs {name}")
    return found


def read(name: str, project: str) -> dict[str, Any] | None:
    """The container's id, None unless it runs and is ours."""
    found = docker.container(name)
    if found is None or not found["State"]["Running"] or not _ours(found, project):
        return None
    return {"container": found["Id"]}


def delete(name: str, project: str) -> bool:
    """Remove the container, never its storage. False when one of that name is not ours."""
    found = docker.container(name)
    if found is not None:
        if not _ours(found, project):
            return False
        output("docker", "rm", "--force", name)
    return True


def _ours(found: dict[str, Any], project: str) -> bool:
    return bool(found["Config"]["Labels"].get(PROJECT) == project)


def address(name: str) -> str:
    """Where this machine reaches the registry: 127.0.0.1:port.

    The port changes when the container is restarted or joins a network.
    """
    return output("docker", "port", name, f"{PORT}/tcp").split()[0]


def inside(name: str) -> str:
    """Where the nodes reach it."""
    return f"{name}:{PORT}"


def connect(name: str, nodes: list[str]) -> None:
    """Put the registry on the nodes' network, and tell their containerd to speak plain HTTP to it."""
    networks = (docker.container(name) or {}).get("NetworkSettings", {}).get("Networks", {})
    if NETWORK not in networks:
        output("docker", "network", "connect", NETWORK, name)
    folder = f"{CERTS}/{inside(name)}"
    for node in nodes:
        docker.execute(node, "mkdir", "-p", folder)
        docker.execute(node, "cp", "/dev/stdin", f"{folder}/hosts.toml", stdin=hosts_toml(inside(name)))
