"""The Kubernetes API, reached through a kubeconfig file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import client, config

from infra import agreed, paths, process


@dataclass(frozen=True)
class ApiAddress:
    """A kubeconfig file and one of its contexts. None: the usual file, or the current context."""

    kubeconfig: str | None
    context: str | None = None

    @property
    def is_there(self) -> bool:
        """Whether the file exists. Without it there is no cluster to ask."""
        return self.kubeconfig is None or Path(self.kubeconfig).exists()

    @classmethod
    def from_props(cls, props: dict[str, Any]) -> ApiAddress:
        """From the properties `kubeconfigPath` and `context` of a dynamic resource.

        Another machine may have written the state. Without a path, this machine's usual file counts.
        """
        path = props.get("kubeconfigPath")
        return cls(str(paths.resolved(path) if path else agreed.usual_kubeconfig()), props.get("context"))


def api_client(address: ApiAddress, retries: urllib3.Retry | None = None) -> client.ApiClient:
    """A client of the Kubernetes API at `address`. Raises ConfigException for an unusable kubeconfig.

    Parameters:
        retries: of each request; None for urllib3's default.
    """
    try:
        with process.path_for_libraries():  # a kubeconfig may run a program that prints the credentials
            found: client.ApiClient = config.new_client_from_config(address.kubeconfig, address.context)  # type: ignore[no-untyped-call]
    except yaml.YAMLError as error:
        raise config.ConfigException(f"{address.kubeconfig} is not a kubeconfig: {error}") from None
    if (
        not found.configuration.verify_ssl
    ):  # the kubeconfig says so: a warning at each request would break the progress display
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    if retries is not None:
        found.rest_client.pool_manager.connection_pool_kw["retries"] = retries
    return found
