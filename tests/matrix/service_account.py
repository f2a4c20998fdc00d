"""Asks an API server as a ServiceAccount."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

LASTS_S = 24 * 3600


def kubeconfig(admin: Path, core: client.CoreV1Api, namespace: str, name: str, folder: Path) -> Path:
    """A file in `folder` as `admin`, with a token of the ServiceAccount, which is there, for LASTS_S seconds."""
    asked: Any = {"spec": {"expirationSeconds": LASTS_S}}
    made: Any = core.create_namespaced_service_account_token(name, namespace, asked)
    known = yaml.safe_load(admin.read_text())
    known["users"][0]["user"] = {"token": made.status.token}
    file = folder / "kubeconfig.yaml"
    file.write_text(yaml.safe_dump(known))
    return file
