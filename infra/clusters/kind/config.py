"""kind's configuration file as data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from infra import paths

# Where pods' volumes lie on every node.
MODELS = "/var/lib/trainstack/models"
DATA = "/var/lib/trainstack/data"

# toolchain/ builds node images of this name; they bring a pod network of their own.
OWN_NODE_IMAGE = "trainstack/node:"

# Registries that nodes reach over plain HTTP are files below this folder.
CERTS = "/etc/containerd/certs.d"
CONTAINERD_PATCH = f'[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "{CERTS}"\n'


@dataclass(frozen=True, kw_only=True)
class KindConfig:
    """What the stack file says of the cluster: all that a changed key can replace it for.

    Parameters:
        name: of the cluster.
        stack: whose models the nodes mount.
        models_path: where they lie on the nodes.
        workers: nodes beside the control plane.
        api_server_port: on 127.0.0.1; None for any free one.
    """

    name: str
    stack: str
    models_path: str = MODELS
    workers: int = 0
    api_server_port: int | None = None

    def encode(self) -> str:
        """As it stands in the state."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def decode(cls, text: str) -> KindConfig:
        """From the state; a key that this program does not know is left out."""
        given = json.loads(text)
        return cls(**{field.name: given[field.name] for field in fields(cls) if field.name in given})


def differences(old: KindConfig, new: KindConfig) -> list[str]:
    """`workers: 0 -> 1` for each setting that a cluster cannot change while it runs."""
    before, after = asdict(old), asdict(new)
    return [f"{key}: {before[key]} -> {after[key]}" for key in before if before[key] != after[key]]


def is_own_image(image: str | None) -> bool:
    """Whether toolchain/ built the node image, so that routes between the nodes are ours to set."""
    return (image or "").startswith(OWN_NODE_IMAGE)


def owner_file(uid: str) -> str:
    """Where our marker lies on the nodes of the cluster with this id. The engine tells it even of a stopped node."""
    return f"/var/lib/trainstack/owner-{uid}.json"


def render(config: KindConfig, own_image: bool, uid: str) -> dict[str, Any]:
    """The document that `kind create cluster --config` reads. `uid`: the id of the cluster that it makes."""
    mounts = [
        {"hostPath": str(paths.models(config.stack)), "containerPath": config.models_path},
        {"hostPath": str(paths.DATA), "containerPath": DATA, "readOnly": True},
        {"hostPath": str(paths.marker(config.name)), "containerPath": owner_file(uid), "readOnly": True},
    ]
    networking: dict[str, Any] = {"apiServerAddress": "127.0.0.1"}
    if own_image:
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


def hosts_toml(registry: str, authorization: str) -> str:
    """containerd's entry for a registry without TLS that asks for a login.

    It stands twice: containerd 1.6 reads no file without a section `host`, and asks `server` next where that one fails.

    Parameters:
        registry: host:port.
        authorization: the value of HTTP's header.
    """
    url = f"http://{registry}"
    capabilities, header = 'capabilities = ["pull", "resolve"]', f'Authorization = ["{authorization}"]'
    own = [f'server = "{url}"', capabilities, "[header]", header]
    return "\n".join([*own, f'[host."{url}"]', capabilities, f'[host."{url}".header]', header, ""])
