"""Client, settings and session, shared by all methods of the service."""

from __future__ import annotations

import threading

from pulumi_standins.kubernetes import scopes
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.engine_log import EngineLog
from pulumi_standins.kubernetes.rpc_errors import ProviderError
from pulumi_standins.kubernetes.session import Session
from pulumi_standins.kubernetes.settings import Settings

DELETE_ANYWAY = (
    "If the cluster was deleted, you can remove this resource from Pulumi state by rerunning the operation "
    'with the PULUMI_K8S_DELETE_UNREACHABLE environment variable set to "true"'
)


class Configured:
    """A provider after Configure. Before that, and while the cluster is unreachable, it has no client."""

    def __init__(self, engine: EngineLog) -> None:
        self._engine = engine
        self._cancelled = threading.Event()
        self._settings = Settings()
        self._client: ApiClient | None = None
        self._unreachable_reason = "the provider is not configured"
        self._namespace = ""
        self._scopes = scopes.Scopes()

    def _session(self) -> Session:
        if self._client is None:
            raise ProviderError(f"configured Kubernetes cluster is unreachable: {self._unreachable_reason}")
        return Session(self._client, self._engine, self._settings, self._cancelled)

    def _warn(self, message: str) -> None:
        """Tell the user something about the cluster as a whole."""
        self._engine.log("", message, warning=True)

    def _warn_unreachable(self, urn: str) -> None:
        message = f"configured Kubernetes cluster is unreachable: {self._unreachable_reason}"
        self._engine.log(urn, message, warning=True)

    def _say_deleting_unreachable(self, urn: str) -> None:
        self._engine.log(
            urn,
            "configured Kubernetes cluster is unreachable and the `deleteUnreachable` option is enabled. "
            "Deleting the unreachable resource from Pulumi state",
        )
