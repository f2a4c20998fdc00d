"""kind's configuration file as data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from infra import paths

# Folders of pods' volumes on every node.
MODELS = "/var/lib/trainstack/models"
DATA = "/var/lib/trainstack/data"

# toolchain/ builds node images of this name; they contain their own pod network.
OWN_NODE_IMAGE = "trainstack/node:"

# This folder has a file for each registry that nodes reach over plain HTTP.
CERTS = "/etc/containerd/certs.d"
CONTAINERD_PATCH = f'[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "{CERTS}"\n'

# Each of forty controllers asks the API server three times before it starts: at the default, 20 requests a second, that
# takes 5 s. There is only one control plane, so nobody else wants its lease. kind writes kubeadm's v1beta3 for
# Kubernetes before 1.36.
KUBEADM_PATCH = """\
apiVersion: kubeadm.k8s.io/v1beta3
kind: ClusterConfiguration
controllerManager:
  extraArgs: {kube-api-qps: "200", kube-api-burst: "400", leader-elect: "false"}
scheduler:
  extraArgs: {leader-elect: "false"}
"""


@dataclass(frozen=True, kw_only=True)
class KindConfig:
    """The settings of the cluster in the stack file. A change of one replaces the cluster.

    Parameters:
        name: of the cluster.
        stack: the nodes mount this stack's models.
        models_path: the models' folder on the nodes.
        workers: number of nodes besides the control plane.
        api_server_port: on 127.0.0.1; None for any free port.
    """

    name: str
    stack: str
    models_path: str = MODELS
    workers: int = 0
    api_server_port: int | None = None

    def encode(self) -> str:
        """The text in the state."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def decode(cls, text: str) -> KindConfig:
        """Read the text in the state, without keys that this program does not know."""
        given = json.loads(text)
        return cls(**{field.name: given[field.name] for field in fields(cls) if field.name in given})


def differences(old: KindConfig, new: KindConfig) -> list[str]:
    """`workers: 0 -> 1` for each setting that a cluster cannot change while it runs."""
    before, after = asdict(old), asdict(new)
    return [f"{key}: {before[key]} -> {after[key]}" for key in before if before[key] != after[key]]


def is_own_image(image: str | None) -> bool:
    """Whether toolchain/ built the node image. Then we set the routes between the nodes."""
    return (image or "").startswith(OWN_NODE_IMAGE)


def owner_file(uid: str) -> str:
    """The path of our marker on the nodes of the cluster with this id.

    The engine shows this mount also for a stopped node.
    """
    return f"/var/lib/trainstack/owner-{uid}.json"


def render(config: KindConfig, own_image: bool, uid: str) -> dict[str, Any]:
    """The document that `kind create cluster --config` reads. `uid`: the id of the new cluster."""
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
        "kubeadmConfigPatches": [KUBEADM_PATCH],
    }


def hosts_toml(registry: str, authorization: str) -> str:
    """containerd's entry for a registry without TLS that asks for a login.

    The file has the address and the login twice, for `host` and for `server`: containerd 1.6 needs a section `host`,
    and asks `server` if `host` fails.

    Parameters:
        registry: host:port.
        authorization: the value of the HTTP header `Authorization`.
    """
    url = f"http://{registry}"
    capabilities, header = 'capabilities = ["pull", "resolve"]', f'Authorization = ["{authorization}"]'
    own = [f'server = "{url}"', capabilities, "[header]", header]
    return "\n".join([*own, f'[host."{url}"]', capabilities, f'[host."{url}".header]', header, ""])
