"""Files and folders of this clone."""

from __future__ import annotations

from pathlib import Path

from infra import agreed

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


def registry_password() -> Path:
    """The file with the password of the registries of this clone's kind clusters."""
    return STATE / "registry" / "password"


def models(stack: str) -> Path:
    """The folder for the models of a stack."""
    return ROOT / agreed.MODELS / stack
