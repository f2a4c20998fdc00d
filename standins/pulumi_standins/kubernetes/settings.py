"""The provider's own arguments, from the program or from the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_PREFIX = "kubernetes:config:"
PATIENCE = "PULUMI_STANDINS_PATIENCE"
"""Environment variable: seconds to wait for an API server that is away."""
PATIENCE_SECONDS = 90.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `kubernetes.Provider(...)` was given; names as in the SDK, in snake case.

    Parameters:
        kubeconfig: path or contents; empty for the default one.
        context: overrides the current context.
        cluster: overrides the context's cluster.
        namespace: for namespaced objects without one.
        server_side_apply: whether updates are applied; otherwise they are merged.
        patch_force: whether updates take fields from other managers; None where neither says.
        client_settings: `kubeClientSettings`, of which `timeout` (seconds) is used.
        patience: seconds to wait for an API server that is away; the stand-in's own setting.
        known_gone: the environment, which is of this run, says that what cannot be reached is gone.
        render_directory: where to write manifests instead of talking to a cluster.
    """

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    namespace: str = ""
    delete_unreachable: bool = False
    skip_update_unreachable: bool = False
    server_side_apply: bool = True
    patch_force: bool | None = None
    config_map_mutable: bool = False
    secret_mutable: bool = False
    suppress_helm_hook_warnings: bool = False
    suppress_deprecation_warnings: bool = False
    render_directory: str = ""
    client_settings: Mapping[str, Any] = field(default_factory=dict)
    patience: float = PATIENCE_SECONDS
    known_gone: bool = False


def from_variables(variables: Mapping[str, str]) -> Settings:
    """Read the Configure request; environment variables stand in for what it lacks."""

    def text(name: str) -> str:
        return variables.get(_PREFIX + name, "")

    def choice(name: str, variable: str) -> bool | None:
        value = variables.get(_PREFIX + name, os.environ.get(f"PULUMI_K8S_{variable}"))
        return None if value is None else value == "true"

    def flag(name: str, variable: str, *, default: bool = False) -> bool:
        chosen = choice(name, variable)
        return default if chosen is None else chosen

    return Settings(
        kubeconfig=text("kubeconfig"),
        context=text("context"),
        cluster=text("cluster"),
        namespace=text("namespace"),
        delete_unreachable=flag("deleteUnreachable", "DELETE_UNREACHABLE"),
        skip_update_unreachable=flag("skipUpdateUnreachable", "SKIP_UPDATE_UNREACHABLE"),
        server_side_apply=flag("enableServerSideApply", "ENABLE_SERVER_SIDE_APPLY", default=True),
        patch_force=choice("enablePatchForce", "ENABLE_PATCH_FORCE"),
        config_map_mutable=flag("enableConfigMapMutable", "ENABLE_CONFIGMAP_MUTABLE"),
        secret_mutable=flag("enableSecretMutable", "ENABLE_SECRET_MUTABLE"),
        suppress_helm_hook_warnings=flag("suppressHelmHookWarnings", "SUPPRESS_HELM_HOOK_WARNINGS"),
        suppress_deprecation_warnings=flag("suppressDeprecationWarnings", "SUPPRESS_DEPRECATION_WARNINGS"),
        render_directory=text("renderYamlToDirectory"),
        client_settings=json.loads(text("kubeClientSettings") or "{}"),
        patience=_patience(os.environ.get(PATIENCE, "")),
        known_gone=os.environ.get("PULUMI_K8S_DELETE_UNREACHABLE") == "true",
    )


def _patience(text: str) -> float:
    try:
        seconds = float(text or PATIENCE_SECONDS)
    except ValueError as error:
        raise ValueError(f"{PATIENCE} is {text!r}: it takes a number of seconds, such as 90") from error
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{PATIENCE} is {text!r}: it takes a number of seconds from 0 on, such as 90")
    return seconds
