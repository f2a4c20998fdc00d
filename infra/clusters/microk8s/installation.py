"""Installs MicroK8s or makes it ready, and removes it only if we installed it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from typing import Any

import yaml

from infra import agreed, paths
from infra.atomic_file import write_whole
from infra.clusters.microk8s import commands

NAME = "microk8s"
INSTALLED, CHANNEL = "installed", "channel"
"""The keys of MicroK8s in a marker file."""


def create(channel: str, addons: Iterable[str], name: str) -> dict[str, Any]:
    """Install if absent, start, wait until ready, enable `addons`, write the kubeconfig. Returns the outputs of `read`.

    A marker, written before the installation, says that we installed it. Raises MicroK8sError.
    """
    if not commands.installed():
        marker = paths.marker(name)
        marker.parent.mkdir(parents=True, exist_ok=True)
        write_whole(marker, json.dumps(agreed.mapping(marker) | {INSTALLED: NAME, CHANNEL: channel}) + "\n")
        commands.install(channel)
    commands.start()
    commands.wait_ready()
    for addon in addons:
        commands.enable(addon)
    commands.wait_ready()
    write_kubeconfig(name)
    return outputs(name)


def is_ours(name: str) -> bool:
    """Whether the marker says that we installed MicroK8s for the stack's cluster of that name."""
    return INSTALLED in agreed.mapping(paths.marker(name))


def reach(name: str, may_start: bool) -> None:
    """Write the kubeconfig of an existing installation, so that the cluster can be asked.

    Parameters:
        may_start: whether to start a stopped installation.
    """
    if paths.kubeconfig(name).exists() or not shutil.which("snap") or not commands.installed():
        return
    if may_start:
        commands.start()
        commands.wait_ready()
    if may_start or commands.running():
        write_kubeconfig(name)


def read(name: str) -> dict[str, Any] | None:
    """The outputs of an installation, running or not; None if snapd says that it does not exist."""
    return outputs(name) if commands.installed() else None


def outputs(name: str) -> dict[str, Any]:
    """`instance`, the cluster's uid, changes with its certificate authority, not with the machine's address.

    `ours` says whether we installed it. Without the kubeconfig file, the outputs from it are missing.
    """
    kubeconfig = paths.kubeconfig(name)
    ours = {"ours": is_ours(name)}
    if not kubeconfig.exists():
        return ours
    text = kubeconfig.read_text()
    authority = yaml.safe_load(text)["clusters"][0]["cluster"]["certificate-authority-data"]
    return {**ours, "instance": hashlib.sha256(authority.encode()).hexdigest()[:12], "kubeconfig": text}


def change(channel: str, addons: Iterable[str], name: str, moved: bool) -> dict[str, Any]:
    """Apply a changed configuration. Add-ons are never disabled. Somebody else's installation keeps its channel."""
    if moved and is_ours(name):
        commands.refresh(channel)
    return create(channel, addons, name)


def delete(name: str) -> None:
    """Remove our installation; keep any other. `name`: of the stack's cluster. Raises CommandError."""
    if is_ours(name) and commands.installed():
        commands.remove()
    forget(name)


def forget(name: str) -> None:
    """Remove from the marker that we installed MicroK8s for the cluster of that name, as `paths.forget`."""
    paths.forget(name, (INSTALLED, CHANNEL))


def write_kubeconfig(name: str) -> None:
    """Write MicroK8s's administrator kubeconfig to a file that only its owner can read."""
    path = paths.kubeconfig(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, commands.kubeconfig(), mode=0o600)


def is_working(name: str) -> bool:
    """Whether MicroK8s runs and its kubeconfig file exists. `name`: of the stack's cluster."""
    return paths.kubeconfig(name).exists() and commands.running()


def repair(name: str, say: Callable[[str], None]) -> bool:
    """Start a stopped MicroK8s, and write a missing kubeconfig; True if something was repaired.

    If MicroK8s is not installed, nothing is done. `say` gets a line for each repair. Raises MicroK8sError.
    """
    if not commands.installed() or is_working(name):
        return False
    if not commands.running():
        commands.start()
        commands.wait_ready()
        say("microk8s was stopped: started")
    if not paths.kubeconfig(name).exists():
        write_kubeconfig(name)
        say("kubeconfig of microk8s was missing: written again")
    return True
