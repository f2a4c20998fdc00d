"""The image registry of a kind cluster: one container. Nodes reach it by name, we reach it on a local port."""

from __future__ import annotations

import hashlib
import io
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from infra import docker, paths
from infra.agreed import ProgramError
from infra.clusters.kind import login
from infra.clusters.kind.config import CERTS, hosts_toml
from infra.clusters.registries import PORT, address_for_nodes
from infra.process import CommandError, output

NETWORK = "kind"
PROJECT = "trainstack.project"
# The container's label with the fingerprint of its login.
LOGIN = "trainstack.login"
RESTART = "unless-stopped"
HTPASSWD = "htpasswd"
SETTINGS = {
    "REGISTRY_AUTH": "htpasswd",
    "REGISTRY_AUTH_HTPASSWD_REALM": "trainstack",
    "REGISTRY_AUTH_HTPASSWD_PATH": f"/{HTPASSWD}",
    "REGISTRY_STORAGE_DELETE_ENABLED": "false",
    "OTEL_TRACES_EXPORTER": "none",
}

Container = dict[str, Any]
"""`docker inspect` of a container."""


class ForeignRegistryError(ProgramError):
    """A container with our registry's name exists and is not ours."""


def volume(clone: Path | None = None) -> str:
    """The volume that all clusters of `clone` share: a new cluster finds the layers that were pushed for an older one.

    Parameters:
        clone: its folder; this clone's by default.
    """
    return f"trainstack-registry-{hashlib.sha256(str(clone or paths.ROOT).encode()).hexdigest()[:12]}"


def create(name: str, image: str) -> dict[str, Any]:
    """Start the registry, and replace an old one of ours.

    Returns its outputs. Raises ForeignRegistryError, and CommandError if the registry stops at once.
    """
    if not delete(name):
        raise ForeignRegistryError(
            f"a container named {name} exists that this clone did not create; nothing was touched.\n"
            f"  fix: choose another cluster name, or delete the container yourself: docker rm -f {name}"
        )
    project = f"{PROJECT}={paths.ROOT}"
    output("docker", "volume", "create", "--label", project, volume())
    settings = [part for setting in SETTINGS.items() for part in ("--env", "=".join(setting))]
    output(
        *("docker", "create", "--name", name),
        *("--label", project, "--label", f"{LOGIN}={login.fingerprint()}"),
        *("--publish", f"127.0.0.1::{PORT}", "--volume", f"{volume()}:/var/lib/registry"),
        *("--restart", RESTART, *settings, image),
    )
    output("docker", "cp", "-", f"{name}:/", stdin=_archive(HTPASSWD, login.htpasswd()))
    output("docker", "start", name)
    found = own(name)
    if found is None or not is_running(found):
        raise CommandError(f"the registry {name} stopped at once\n  fix: `docker logs {name}` shows why")
    return outputs(found)


def _archive(name: str, text: str) -> str:
    """A tar archive, itself ASCII text, with one file that only root may read."""
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size = 0o600, len(text)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as file:
        file.addfile(entry, io.BytesIO(text.encode("ascii")))
    return archive.getvalue().decode("ascii")


def own(name: str) -> Container | None:
    """`docker inspect` of our container `name`, running or not; None if it does not exist or is not ours.

    Raises CommandError.
    """
    found = docker.container(name)
    return found if found is not None and _ours(found) else None


def outputs(found: Container) -> dict[str, Any]:
    """What the state keeps of the container: its id."""
    return {"container": found["Id"]}


def is_running(found: Container) -> bool:
    """Whether the container runs and is not paused."""
    return bool(found["State"]["Running"]) and not found["State"].get("Paused")


def asks_for_login(found: Container) -> bool:
    """Whether our registry asks for this clone's login."""
    return bool(found["Config"]["Labels"].get(LOGIN) == login.fingerprint())


def start(name: str, found: Container) -> bool:
    """Start our registry `name` if it does not run; True if it was started. Raises CommandError."""
    if found["HostConfig"]["RestartPolicy"]["Name"] != RESTART:
        with suppress(CommandError):  # not every engine can change it: then only we start it
            output("docker", "update", "--restart", RESTART, name)
    if is_running(found):
        return False
    output("docker", "unpause" if found["State"].get("Paused") else "start", name)
    return True


def delete(name: str) -> bool:
    """Delete the container, never its storage. False if the container is not ours. Raises CommandError."""
    found = docker.container(name)
    if found is not None:
        if not _ours(found):
            return False
        output("docker", "rm", "--force", name)
    return True


def _ours(found: Container) -> bool:
    return bool(found["Config"]["Labels"].get(PROJECT) == str(paths.ROOT))


def connect(name: str, nodes: list[str]) -> None:
    """Connect the registry to the nodes' network, and configure their containerd with its login and plain HTTP.

    Raises CommandError.

    Parameters:
        name: of the registry's container.
        nodes: names of the nodes' containers.
    """
    networks = (docker.container(name) or {}).get("NetworkSettings", {}).get("Networks", {})
    if NETWORK not in networks:
        output("docker", "network", "connect", NETWORK, name)
    address = address_for_nodes(name)
    folder = f"{CERTS}/{address}"
    entry = hosts_toml(address, login.authorization())
    for node in nodes:
        docker.execute(node, "install", "--mode=700", "--directory", folder)
        docker.execute(node, "install", "--mode=600", "/dev/stdin", f"{folder}/hosts.toml", stdin=entry)
