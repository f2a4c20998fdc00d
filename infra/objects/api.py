"""The Kubernetes API, reached through a kubeconfig file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubernetes import client, config


@dataclass(frozen=True)
class ApiAddress:
    """A kubeconfig file and one of its contexts; None stands for the usual file, or its current context."""

    kubeconfig: str | None
    context: str | None = None

    @classmethod
    def from_props(cls, props: dict[str, Any]) -> ApiAddress:
        """From the properties `kubeconfigPath` and `context` of a dynamic resource."""
        return cls(props.get("kubeconfigPath"), props.get("context"))


def api_client(address: ApiAddress) -> client.ApiClient:
    """A client of the Kubernetes API at `address`. Raises ConfigException for a kubeconfig that cannot be used."""
    found: client.ApiClient = config.new_client_from_config(address.kubeconfig, address.context)  # type: ignore[no-untyped-call]
    return found
