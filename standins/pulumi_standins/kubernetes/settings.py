"""The provider's own arguments, from the program or from the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulumi_standins import border

_PREFIX = "kubernetes:config:"
_CLIENT = "kubeClientSettings"
# The engine's own values about the plugin, like all names that begin with two underscores.
_ENGINES_OWN = {"version", "pluginDownloadURL"}
PATIENCE = "PULUMI_STANDINS_PATIENCE"
"""Environment variable: seconds to wait for an unreachable API server."""
PATIENCE_SECONDS = 90.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The arguments of `kubernetes.Provider(...)`; names as in the SDK, in snake case.

    Parameters:
        kubeconfig: path or contents; empty for the default one.
        context: overrides the current context.
        cluster: overrides the context's cluster.
        namespace: for namespaced objects that name no namespace.
        patch_force: whether updates take fields from other managers; None if not set.
        upsert: whether a create adopts an existing object.
        timeout: seconds to wait for an answer, `kubeClientSettings.timeout`; None for our own.
        patience: seconds to wait for an unreachable API server; the stand-in's own setting.
        known_gone: this run's environment says that unreachable objects are gone.
    """

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    namespace: str = ""
    delete_unreachable: bool = False
    patch_force: bool | None = None
    upsert: bool = False
    timeout: float | None = None
    patience: float = PATIENCE_SECONDS
    known_gone: bool = False


def from_variables(variables: Mapping[str, str]) -> Settings:
    """Read the Configure request; environment variables replace missing options.

    Raises:
        ValueError: an option or a variable is beyond the border, or is a wrong number.
    """
    if reasons := [*refused(options(variables)).values(), *_refused_variables()]:
        raise ValueError("; ".join(reasons))

    def text(name: str) -> str:
        return variables.get(_PREFIX + name, "")

    def choice(name: str, variable: str) -> bool | None:
        value = variables.get(_PREFIX + name, os.environ.get(f"PULUMI_K8S_{variable}"))
        return None if value is None else value == "true"

    def flag(name: str, variable: str) -> bool:
        return choice(name, variable) is True

    timeout = json.loads(text(_CLIENT) or "{}").get("timeout")
    return Settings(
        kubeconfig=text("kubeconfig"),
        context=text("context"),
        cluster=text("cluster"),
        namespace=text("namespace"),
        delete_unreachable=flag("deleteUnreachable", "DELETE_UNREACHABLE"),
        patch_force=choice("enablePatchForce", "ENABLE_PATCH_FORCE"),
        upsert=flag("upsertExistingObjects", "UPSERT_EXISTING_OBJECTS"),
        timeout=float(timeout) if timeout else None,
        patience=_patience(os.environ.get(PATIENCE, "")),
        known_gone=os.environ.get("PULUMI_K8S_DELETE_UNREACHABLE") == "true",
    )


def options(variables: Mapping[str, str]) -> dict[str, Any]:
    """The options of a Configure request by their names."""
    return {
        name.removeprefix(_PREFIX): value for name, value in variables.items() if name.startswith(_PREFIX)
    }


def refused(given: Mapping[str, Any]) -> dict[str, str]:
    """The refusals of options, by name; the engine may send maps of options as JSON."""
    flat: dict[str, Any] = {}
    for name, value in given.items():
        parts = json.loads(value or "{}") if name == _CLIENT and isinstance(value, str) else value
        if name == _CLIENT and isinstance(parts, dict):
            flat |= {f"{name}.{part}": each for part, each in parts.items()}
        elif name != _CLIENT and name not in _ENGINES_OWN and not name.startswith("__"):
            flat[name] = value
    return border.refused_options(flat)


def _refused_variables() -> list[str]:
    found = [(name, os.environ.get(name)) for name in border.ENVIRONMENT]
    return [border.refusal(f"{name}={value}") for name, value in found if value == border.ENVIRONMENT[name]]


def _patience(text: str) -> float:
    try:
        seconds = float(text or PATIENCE_SECONDS)
    except ValueError as error:
        raise ValueError(f"{PATIENCE} is {text!r}: it takes a number of seconds, such as 90") from error
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{PATIENCE} is {text!r}: it takes a number of seconds of at least 0, such as 90")
    return seconds
