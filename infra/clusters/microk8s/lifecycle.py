"""Makes MicroK8s ready, and removes it only where we installed it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

import yaml

from infra.clusters.microk8s import commands


def ensure(channel: str, addons: Iterable[str], marker: Path, kubeconfig: Path) -> dict[str, str | bool]:
    """Install if absent, start, wait until ready, enable `addons`, write `kubeconfig`. Returns the outputs of `read`.

    The marker, written before the installation, tells ours from one that was there before. Raises MicroK8sError.
    """
    if not commands.installed():
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text(json.dumps({"installed": "microk8s", "channel": channel}) + "\n")
        commands.install(channel)
    commands.start()
    commands.wait_ready()
    for addon in addons:
        commands.enable(addon)
    commands.wait_ready()
    _write(kubeconfig, commands.kubeconfig())
    return read(marker, kubeconfig)


def read(marker: Path, kubeconfig: Path) -> dict[str, str | bool]:
    """`instance` changes with the cluster's certificate authority, not with the machine's address.

    `ours` says whether we installed it.
    """
    text = kubeconfig.read_text()
    authority = yaml.safe_load(text)["clusters"][0]["cluster"]["certificate-authority-data"]
    instance = hashlib.sha256(authority.encode()).hexdigest()[:12]
    return {"instance": instance, "ours": marker.exists(), "kubeconfig": text}


def there(kubeconfig: Path) -> bool:
    return kubeconfig.exists() and commands.installed() and commands.running()


def change(
    channel: str, addons: Iterable[str], marker: Path, kubeconfig: Path, moved: bool
) -> dict[str, str | bool]:
    """Follow a changed configuration. Add-ons are never disabled, and others' installation keeps its channel."""
    if moved and marker.exists():
        commands.refresh(channel)
    return ensure(channel, addons, marker, kubeconfig)


def delete(marker: Path, kubeconfig: Path) -> None:
    """Remove an installation of ours; leave any other."""
    if marker.exists():
        if commands.installed():
            commands.remove()
        marker.unlink()
    kubeconfig.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
