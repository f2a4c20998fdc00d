"""kind's configuration file as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Where pods' volumes and our marker lie on every node.
MODELS = "/var/lib/trainstack/models"
DATA = "/var/lib/trainstack/data"
OWNER = "/var/lib/trainstack/owner.json"

# Registries that nodes reach over plain HTTP are files below this folder.
CERTS = "/etc/containerd/certs.d"
CONTAINERD_PATCH = f'[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "{CERTS}"\n'


@dataclass(frozen=True, kw_only=True)
class KindConfig:
    """`own_image`: the node image is built by toolchain/, which brings a pod network of its own."""

    name: str
    marker: str
    models: str
    data: str
    models_path: str = MODELS
    workers: int = 0
    api_server_port: int | None = None
    own_image: bool = False


def render(config: KindConfig) -> dict[str, Any]:
    """The document that `kind create cluster --config` reads."""
    mounts = [
        {"hostPath": config.models, "containerPath": config.models_path},
        {"hostPath": config.data, "containerPath": DATA, "readOnly": True},
        {"hostPath": config.marker, "containerPath": OWNER, "readOnly": True},
    ]
    networking: dict[str, Any] = {"apiServerAddress": "127.0.0.1"}
    if config.own_image:
        networking["disableDefaultCNI"] = True
    if config.api_server_port:
        networking["apiServerPort"] = config.api_server_port
    roles = ["control-plane", *["worker"] * config.workers]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": config.name,
        "networking": networking,
        "nodes": [{"role": role, "extraMounts": mounts} for role in roles],
        "containerdConfigPatches": [CONTAINERD_PATCH],
    }


def hosts_toml(registry: str) -> str:
    """containerd's entry for a registry without TLS. `registry`: host:port."""
    url = f"http://{registry}"
    return f'server = "{url}"\n\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n'
