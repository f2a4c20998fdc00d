"""The kubeconfig that reaches a cluster that is there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from infra import agreed
from infra.clusters.existing import one_context
from infra.config import ConfigError, Stack
from infra.config.cluster import ClusterConfig
from infra.config.errors import paragraph


def kubeconfig_path(cluster: ClusterConfig, environment: Mapping[str, str] = os.environ) -> Path:
    """The configured file, else the first of KUBECONFIG, else the usual one."""
    configured = cluster.kubeconfig
    return Path(configured) if configured else agreed.usual_kubeconfig(environment)


def check_context(stack: Stack, path: Path) -> None:
    """Raises ConfigError when the file is no kubeconfig, or lacks the configured context."""
    wanted = stack.cluster.context
    if wanted is None or not path.exists():
        return
    known = [entry["name"] for entry in one_context.read(path).get("contexts") or []]
    if wanted not in known:
        allowed = f"a context of {path}: {', '.join(known) or 'it has none'}"
        fix = "take one of those, or remove context to use the current one"
        raise ConfigError(paragraph(stack.file, "trainstack:cluster.context", wanted, allowed, fix))
