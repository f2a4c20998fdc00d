"""A user's kubeconfig, reduced to the cluster and login of the stack: only these go into the stack's state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from infra.config import ConfigError

# Keys of clusters and users that name a file relative to the kubeconfig's folder.
FILES = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}


def read(path: Path) -> dict[str, Any]:
    """The kubeconfig in the file `path`. Raises ConfigError if the file is not a kubeconfig."""
    try:
        found = yaml.safe_load(path.read_text()) or {}
        lists = [found.get(key) or [] for key in ("clusters", "contexts", "users")]
        assert all(isinstance(each["name"], str) for entries in lists for each in entries)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}\n  fix: make it readable for you"
        ) from None
    except (yaml.YAMLError, AttributeError, AssertionError, KeyError, TypeError):
        # The parser's own message would show a part of the file.
        raise ConfigError(
            f"{path} is not a kubeconfig\n  fix: `kubectl --kubeconfig {path} config view` shows the mistake"
        ) from None
    return dict(found)


def reduced(config: dict[str, Any], context: str | None, folder: Path) -> dict[str, Any]:
    """`config` with one context, its cluster and its user, as `kubectl config view --minify` shows it.

    Parameters:
        config: the kubeconfig.
        context: the context's name; None for the current one.
        folder: the file's folder; relative paths start there.
    """
    name = context or config.get("current-context") or ""
    contexts = _entries(config, "contexts", name)
    used = (contexts[0].get("context") or {}) if contexts else {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": contexts,
        "clusters": _absolute(_entries(config, "clusters", used.get("cluster")), "cluster", folder),
        "users": _absolute(_entries(config, "users", used.get("user")), "user", folder),
    }


def text(path: Path, context: str | None) -> str:
    """The file `path` with one context, as YAML. Raises ConfigError if it is not a kubeconfig."""
    return yaml.safe_dump(reduced(read(path), context, path.absolute().parent), sort_keys=False)


def _entries(config: dict[str, Any], section: str, name: Any) -> list[dict[str, Any]]:
    return [each for each in config.get(section) or [] if each["name"] == name]


def _absolute(entries: list[dict[str, Any]], kind: str, folder: Path) -> list[dict[str, Any]]:
    return [{"name": each["name"], kind: _with_paths(each.get(kind) or {}, kind, folder)} for each in entries]


def _with_paths(entry: dict[str, Any], kind: str, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {key: str(folder / entry[key]) for key in FILES[kind] if entry.get(key)}
    program = (entry.get("exec") or {}).get("command", "")
    if os.sep in program:
        found["exec"] = {**entry["exec"], "command": str(folder / program)}
    return {**entry, **found}
