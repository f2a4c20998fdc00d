"""The kubeconfig that reaches a cluster that is there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import yaml

from infra.config import ConfigError, Stack
from infra.config.errors import paragraph


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
