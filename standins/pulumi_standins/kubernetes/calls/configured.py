"""What all methods of the service share: client, settings, session, and the outputs for the state."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from pulumi_standins.kubernetes import scopes, state
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.engine_log import EngineLog
from pulumi_standins.kubernetes.rpc_errors import ProviderError
from pulumi_standins.kubernetes.session import Session
from pulumi_standins.kubernetes.settings import Settings
from pulumi_standins.kubernetes.values import Object

DELETE_ANYWAY = (
    "If the cluster was deleted, you can remove this resource from Pulumi state by rerunning the operation "
    'with the PULUMI_K8S_DELETE_UNREACHABLE environment variable set to "true"'
)


@dataclass(frozen=True)
class StateOutputs:
    """Makes the outputs that the state keeps for one resource.

    Parameters:
        source: the property values that the inputs came from; secrets there are secrets in the outputs.
        initial_api_version: the apiVersion that the object was created with.
        field_manager: the name under which the object's fields are ours.
    """

    source: Object
    initial_api_version: str
    field_manager: str

    def outputs(self, inputs: Object, live: Object) -> Object:
        """The outputs for the state, from the plain inputs and the object as the server returned it."""
        return state.outputs(
            inputs=inputs,
            live=live,
            source=self.source,
            initial_api_version=self.initial_api_version,
            field_manager=self.field_manager,
        )


class Configured:
    """A provider after Configure. It has no client before that, nor while the cluster cannot be reached."""

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

    def _manager(self, inputs: Object, previous: str = "") -> str:
        """The name under which the object's fields are ours."""
        if not self._settings.server_side_apply:
            return state.CREATOR
        return state.field_manager(inputs, previous)

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
