"""The image registry of a kind cluster: one container, reached by the nodes by name and by us on a local port."""

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
# The container's label that says which login it asks for.
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


class ForeignRegistryError(ProgramError):
    """A container of our registry's name exists and is not ours."""


def volume(clone: Path | None = None) -> str:
    """Shared by the clusters of `clone`, so that a new one finds the layers that an older one was sent.

    Parameters:
        clone: its folder; this clone's by default.
    """
    return f"trainstack-registry-{hashlib.sha256(str(clone or paths.ROOT).encode()).hexdigest()[:12]}"


def create(name: str, image: str) -> dict[str, Any]:
    """Start the registry, replacing one of ours.

    Returns the outputs of `read`. Raises ForeignRegistryError, and CommandError where it does not keep running.
    """
    if not delete(name):
        raise ForeignRegistryError(
            f"a container named {name} exists that this clone did not make; it is left alone.\n"
            f"  fix: choose another cluster name, or remove it yourself: docker rm -f {name}"
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
    found = read(name)
    if found is None or not is_running(name):
        raise CommandError(f"the registry {name} ended at once: docker logs {name}")
    return found


def _archive(name: str, text: str) -> str:
    """A tar archive with one file for root alone. It is ASCII, as its parts are."""
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size = 0o600, len(text)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as file:
        file.addfile(entry, io.BytesIO(text.encode("ascii")))
    return archive.getvalue().decode("ascii")


def read(name: str) -> dict[str, Any] | None:
    """The id of the container `name`, running or not; None when it is gone, or another's. Raises CommandError."""
    found = docker.container(name)
    return {"container": found["Id"]} if found is not None and _ours(found) else None


def is_running(name: str) -> bool:
    """Whether the container `name` runs; false where there is none, and while it is paused. Raises CommandError."""
    found = docker.container(name)
    return found is not None and bool(found["State"]["Running"]) and not found["State"].get("Paused")


def asks_for_login(name: str) -> bool:
    """Whether our registry `name` is there, running or not, and asks for this clone's login. Raises CommandError."""
    found = docker.container(name)
    return found is not None and _ours(found) and found["Config"]["Labels"].get(LOGIN) == login.fingerprint()


def start(name: str) -> bool:
    """Start our registry `name` where it does not run; True when that had to be done. Raises CommandError."""
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
    """Remove the container, never its storage. False when one of that name is not ours. Raises CommandError."""
    found = docker.container(name)
    if found is not None:
        if not _ours(found):
            return False
        output("docker", "rm", "--force", name)
    return True


def _ours(found: dict[str, Any]) -> bool:
    return bool(found["Config"]["Labels"].get(PROJECT) == str(paths.ROOT))


def connect(name: str, nodes: list[str]) -> None:
    """Put the registry on the nodes' network, and tell their containerd its login, and that it speaks plain HTTP.

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
