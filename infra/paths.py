"""Files and folders of this clone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from infra import agreed
from infra.atomic_file import write_whole

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / agreed.LOCAL
DATA = ROOT / agreed.DATA


def portable(path: Path | str) -> str:
    """A path as a stack's state has it: relative if it is inside this clone, so that each clone finds its own file."""
    found = Path(path)
    return str(found.relative_to(ROOT)) if found.is_relative_to(ROOT) else str(path)


def resolved(text: str) -> Path:
    """The file on this machine for a path from `portable`."""
    return ROOT / text


def stack_file(stack: str) -> Path:
    """The file that configures a stack of this clone."""
    return ROOT / agreed.STACKS / f"Pulumi.{stack}.yaml"


def kubeconfig(cluster: str) -> Path:
    """The kubeconfig file of the cluster of this name, which a stack of this clone created."""
    return STATE / "kubeconfig" / f"{cluster}.yaml"


def markers() -> Path:
    """The folder with the marker files, which say which clusters this clone created."""
    return STATE / "clusters"


def marker(cluster: str) -> Path:
    """The marker file of our cluster of this name. It is written before the cluster, and deleted with the cluster."""
    return markers() / f"{cluster}.json"


def forget(cluster: str, keys: Iterable[str]) -> None:
    """Remove `keys` from the marker of `cluster`. If no key is left, delete the kubeconfig file and then the marker.

    Each kind of cluster has its own keys there: a stack that moves to another kind may keep the name.
    """
    file = marker(cluster)
    left = {key: value for key, value in agreed.mapping(file).items() if key not in keys}
    if left:
        write_whole(file, f"{json.dumps(left)}\n")
        return
    kubeconfig(cluster).unlink(missing_ok=True)
    file.unlink(missing_ok=True)


def registry_password() -> Path:
    """The file with the password of the registries of this clone's kind clusters."""
    return STATE / "registry" / "password"


def models(stack: str) -> Path:
    """The folder for the models of a stack."""
    return ROOT / agreed.MODELS / stack
