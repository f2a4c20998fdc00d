"""A cluster that is there: reached by a kubeconfig, and nothing of the cluster itself is made or removed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pulumi
import pulumi_kubernetes
import yaml

from infra.clusters.cluster import Cluster
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph

# Stands for a kubeconfig that is not there yet: the preview goes on, and warns. It names no server, since a plugin may
# wait for a server that does not answer.
NOWHERE = yaml.safe_dump(
    {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": [], "current-context": ""}
)


def kubeconfig_path(stack: Stack, environment: Mapping[str, str] = os.environ) -> Path:
    """The configured file, else the first of KUBECONFIG, else the usual one."""
    if stack.cluster.kubeconfig:
        return Path(stack.cluster.kubeconfig)
    first = environment.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(first) if first else Path.home() / ".kube" / "config"


def check_context(stack: Stack, path: Path) -> None:
    """Raises ConfigError when the configured context is not in the kubeconfig."""
    wanted = stack.cluster.context
    if wanted is None or not path.exists():
        return
    try:
        known = [entry["name"] for entry in (yaml.safe_load(path.read_text()) or {}).get("contexts") or []]
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is no kubeconfig: {error}") from None
    if wanted not in known:
        allowed = f"a context of {path}: {', '.join(known) or 'it has none'}"
        fix = "take one of those, or remove context to use the current one"
        raise ConfigError(paragraph(stack.file, "trainstack:cluster.context", wanted, allowed, fix))


class Existing(pulumi.ComponentResource):
    """A provider for the cluster of a kubeconfig."""

    def __init__(self, *, stack: Stack) -> None:
        super().__init__("trainstack:cluster:Existing", stack.name)
        path = kubeconfig_path(stack)
        kubeconfig = pulumi.Output.secret(path.read_text() if path.exists() else NOWHERE)
        provider = pulumi_kubernetes.Provider(
            stack.name,
            kubeconfig=kubeconfig,
            context=stack.cluster.context,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.cluster = Cluster(
            provider=provider,
            kubeconfig=kubeconfig,
            kubeconfig_path=str(path),
            context=stack.cluster.context,
            cluster_uid=stack.cluster.context or stack.name,
        )
        self.register_outputs({})
