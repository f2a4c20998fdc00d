"""The image registry of a kind cluster: one container, reached by the nodes by name and by us on a local port."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from infra import docker, paths
from infra.clusters.kind.config import CERTS, hosts_toml
from infra.clusters.registries import PORT, address_for_nodes
from infra.process import CommandError, output

NETWORK = "kind"
# Shared by all clusters, so that a new one finds the layers that an older one was sent.
VOLUME = "trainstack-registry"
PROJECT = "trainstack.project"
RESTART = "unless-stopped"


class ForeignRegistryError(RuntimeError):
    """A container of our registry's name exists and is not ours."""


def create(name: str, image: str) -> dict[str, Any]:
    """Start the registry, replacing one of ours.

    Returns the outputs of `read`. Raises ForeignRegistryError, and CommandError where it does not keep running.
    """
    if not delete(name):
        raise ForeignRegistryError(
            f"a container named {name} exists that this clone did not make; it is left alone.\n"
            f"  fix: choose another cluster name, or remove it yourself: docker rm -f {name}"
        )
    output(
        *("docker", "run", "--detach", "--name", name, "--label", f"{PROJECT}={paths.ROOT}"),
        *("--publish", f"127.0.0.1::{PORT}", "--volume", f"{VOLUME}:/var/lib/registry"),
        *("--restart", RESTART, "--env", "OTEL_TRACES_EXPORTER=none"),
        *("--env", "REGISTRY_STORAGE_DELETE_ENABLED=false", image),  # pods reach it, too
    )
    found = read(name)
    if found is None or not is_running(name):
        raise CommandError(f"the registry {name} ended at once: docker logs {name}")
    return found


def read(name: str) -> dict[str, Any] | None:
    """The container's id, running or not; None when it is gone, or another's."""
    found = docker.container(name)
    return {"container": found["Id"]} if found is not None and _ours(found) else None


def is_running(name: str) -> bool:
    """Whether the container `name` runs; false where there is none, and while it is paused."""
    found = docker.container(name)
    return found is not None and bool(found["State"]["Running"]) and not found["State"].get("Paused")


def start(name: str) -> bool:
    """Start our registry where it does not run; True when that had to be done."""
    found = docker.container(name)
    if found is None or not _ours(found):
        return False
    if found["HostConfig"]["RestartPolicy"]["Name"] != RESTART:
        with suppress(CommandError):  # not every engine can change it: then it is started from here only
            output("docker", "update", "--restart", RESTART, name)
    if is_running(name):
        return False
    output("docker", "unpause" if found["State"].get("Paused") else "start", name)
    return True


def delete(name: str) -> bool:
    """Remove the container, never its storage. False when one of that name is not ours."""
    found = docker.container(name)
    if found is not None:
        if not _ours(found):
            return False
        output("docker", "rm", "--force", name)
    return True


def _ours(found: dict[str, Any]) -> bool:
    return bool(found["Config"]["Labels"].get(PROJECT) == str(paths.ROOT))


def connect(name: str, nodes: list[str]) -> None:
    """Put the registry on the nodes' network, and tell their containerd to speak plain HTTP to it."""
    networks = (docker.container(name) or {}).get("NetworkSettings", {}).get("Networks", {})
    if NETWORK not in networks:
        output("docker", "network", "connect", NETWORK, name)
    folder = f"{CERTS}/{address_for_nodes(name)}"
    for node in nodes:
        docker.execute(node, "mkdir", "-p", folder)
        docker.execute(
            node, "cp", "/dev/stdin", f"{folder}/hosts.toml", stdin=hosts_toml(address_for_nodes(name))
        )
