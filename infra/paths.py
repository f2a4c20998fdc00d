"""Files and folders of this clone."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / ".trainstack"
DATA = ROOT / "data"


def kubeconfig(cluster: str) -> Path:
    """The file that reaches the cluster of this name, which a stack of this clone has made."""
    return STATE / "kubeconfig" / f"{cluster}.yaml"


def marker(cluster: str) -> Path:
    """Says that a cluster of this name is ours."""
    return STATE / "clusters" / f"{cluster}.json"


def models(stack: str) -> Path:
    """The folder for the models of a stack."""
    return ROOT / "models" / stack
