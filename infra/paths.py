"""Files and folders of this clone."""

from __future__ import annotations

from pathlib import Path

from infra import agreed

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / agreed.LOCAL
DATA = ROOT / agreed.DATA


def portable(path: Path | str) -> str:
    """A path as a stack's state holds it: relative when it lies in this clone, so that each clone means its own."""
    found = Path(path)
    return str(found.relative_to(ROOT)) if found.is_relative_to(ROOT) else str(path)


def resolved(text: str) -> Path:
    """The file on this machine that `portable` wrote down."""
    return ROOT / text


def stack_file(stack: str) -> Path:
    """The file that configures a stack of this clone."""
    return ROOT / agreed.STACKS / f"Pulumi.{stack}.yaml"


def kubeconfig(cluster: str) -> Path:
    """The file that reaches the cluster of this name, which a stack of this clone has made."""
    return STATE / "kubeconfig" / f"{cluster}.yaml"


def markers() -> Path:
    """The folder with the markers of this clone's clusters."""
    return STATE / "clusters"


def marker(cluster: str) -> Path:
    """Says that a cluster of this name is ours. It is written before the cluster is made, and removed with it."""
    return markers() / f"{cluster}.json"


def registry_password() -> Path:
    """The file with the password that the registries of this clone's kind clusters ask for."""
    return STATE / "registry" / "password"


def models(stack: str) -> Path:
    """The folder for the models of a stack."""
    return ROOT / agreed.MODELS / stack
