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
    """A kubeconfig file and one of its contexts; None stands for the usual file, or its current context."""

    kubeconfig: str | None
    context: str | None = None

    @property
    def is_there(self) -> bool:
        """Whether the file exists: without one there is no cluster to ask yet."""
        return self.kubeconfig is None or Path(self.kubeconfig).exists()

    @classmethod
    def from_props(cls, props: dict[str, Any]) -> ApiAddress:
        """From the properties `kubeconfigPath` and `context` of a dynamic resource.

        A state may be read on another machine than it was made on: without a path, the usual file of this one is meant.
        """
        path = props.get("kubeconfigPath")
        return cls(str(paths.resolved(path) if path else agreed.usual_kubeconfig()), props.get("context"))


def api_client(address: ApiAddress, retries: urllib3.Retry | None = None) -> client.ApiClient:
    """A client of the Kubernetes API at `address`. Raises ConfigException for a kubeconfig that cannot be used.

    Parameters:
        retries: of each request; None for as many as urllib3 makes by itself.
    """
    try:
        with process.path_for_libraries():  # a user's credentials may be what a program prints
            found: client.ApiClient = config.new_client_from_config(address.kubeconfig, address.context)  # type: ignore[no-untyped-call]
    except yaml.YAMLError as error:
        raise config.ConfigException(f"{address.kubeconfig} is no kubeconfig: {error}") from None
    if (
        not found.configuration.verify_ssl
    ):  # as the kubeconfig says: two lines about it at each request tear the screen
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    if retries is not None:
        found.rest_client.pool_manager.connection_pool_kw["retries"] = retries
    return found
