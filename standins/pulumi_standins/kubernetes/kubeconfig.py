"""Finding, reading and comparing kubeconfigs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from pulumi_standins.kubernetes.settings import Settings

# The C parser reads a kubeconfig of 6 KB in a tenth of the time.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class KubeconfigError(Exception):
    """The kubeconfig cannot be read, or refers to a missing entry."""


def parse(text_or_path: str) -> tuple[dict[str, Any], str]:
    """The kubeconfig and the base folder of its relative paths.

    Several lines, or a text that begins with `{`, are contents; other texts are paths, and a leading `~` is the home
    folder. Raises KubeconfigError.
    """
    folder = os.getcwd()
    text = text_or_path
    path = Path(text_or_path).expanduser() if "\n" not in text_or_path else None
    if path is not None and not text_or_path.lstrip().startswith("{"):
        try:
            text = path.read_text()
        except OSError as error:
            raise KubeconfigError(f"cannot read the kubeconfig {path}: {error.strerror}") from error
        folder = str(path.absolute().parent)
    return _parsed(text), folder


def _parsed(text: str) -> dict[str, Any]:
    try:
        config = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise KubeconfigError(f"failed to parse kubeconfig: {error}") from error
    if not isinstance(config, dict):
        raise KubeconfigError("failed to parse kubeconfig: it is not a map")
    return config


def default_kubeconfig() -> tuple[dict[str, Any], str]:
    """The kubeconfig that kubectl would use: $KUBECONFIG's files, merged, else ~/.kube/config."""
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    paths = [Path(part) for part in named] or [Path.home() / ".kube" / "config"]
    merged: dict[str, Any] = {}
    for path in paths:
        if not path.is_file():
            continue
        config, folder = parse(str(path))
        _make_absolute(config, folder)
        for key, value in config.items():
            if isinstance(value, list):
                known = {entry["name"] for entry in merged.get(key) or []}
                merged[key] = [*(merged.get(key) or []), *(e for e in value if e["name"] not in known)]
            elif value and not merged.get(key):
                merged[key] = value
    return merged, os.getcwd()


def _make_absolute(config: dict[str, Any], folder: str) -> None:
    keys = {"clusters": ("cluster", ["certificate-authority"])}
    keys["users"] = ("user", ["client-certificate", "client-key", "tokenFile"])
    for section, (inner, names) in keys.items():
        for entry in config.get(section) or []:
            for name in names:
                value = (entry.get(inner) or {}).get(name)
                if value:
                    entry[inner][name] = os.path.join(folder, value)


def _entry(config: dict[str, Any], section: str, name: str) -> dict[str, Any] | None:
    inner = section.removesuffix("s")
    for entry in config.get(section) or []:
        if entry.get("name") == name:
            return entry.get(inner) or {}
    return None


def current_context(config: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The context in use, with the overrides applied; raises KubeconfigError if it is missing."""
    name = settings.context or config.get("current-context") or ""
    context = _entry(config, "contexts", name)
    if context is None:
        if name:
            raise KubeconfigError(f'context "{name}" does not exist')
        raise KubeconfigError("no kubeconfig with a current context was found")
    return {**context, "cluster": settings.cluster or context.get("cluster", "")}


def active_cluster(config: dict[str, Any], *, context: str, cluster: str) -> dict[str, Any] | None:
    """The cluster of a provider with these arguments; an empty one if nothing is configured."""
    if not config.get("clusters"):
        return {}
    active = _entry(config, "contexts", context or config.get("current-context") or "")
    if active is None:
        return {}
    return _entry(config, "clusters", cluster or active.get("cluster", ""))


def cluster(config: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """The context's cluster; raises KubeconfigError if it is missing."""
    found = _entry(config, "clusters", context.get("cluster", ""))
    if found is None:
        raise KubeconfigError(f'cluster "{context.get("cluster", "")}" does not exist')
    return found


def user(config: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """The context's user, empty if the context names none; raises KubeconfigError if it is missing."""
    name = context.get("user", "")
    found = _entry(config, "users", name)
    if found is None and name:
        raise KubeconfigError(f'user "{name}" does not exist')
    return found or {}
