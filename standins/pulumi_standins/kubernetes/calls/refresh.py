"""Read: refresh and import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulumi_standins import protocol
from pulumi_standins.kubernetes import objects, reading, state, values
from pulumi_standins.kubernetes.calls.configured import DELETE_ANYWAY, Configured
from pulumi_standins.kubernetes.normalise import normalise
from pulumi_standins.kubernetes.prune import prune
from pulumi_standins.kubernetes.rpc_errors import ProviderError, init_failed, rpc_method
from pulumi_standins.kubernetes.secret_marks import mark_secrets

if TYPE_CHECKING:
    from pulumi.runtime.proto import provider_pb2


class ReadCalls(Configured):
    """Read."""

    @rpc_method
    def Read(self, request: provider_pb2.ReadRequest) -> provider_pb2.ReadResponse:  # noqa: N802
        """Refresh or import; an empty answer means that the object is gone."""
        response = protocol.provider_pb2.ReadResponse
        if self._client is None:
            return self._read_unreachable(request)
        source = values.decode(request.inputs)
        old_outputs = values.decode(request.properties)
        old = state.read(old_outputs)
        plain_inputs = values.plain(source)
        found = reading.read(self._session(), request.urn, request.id, old, plain_inputs)
        if found is None:
            return response()
        made = state.Outputs(
            source,
            old.initial_api_version or str(found.live.get("apiVersion", "")),
            old.field_manager or state.field_manager(),
        )
        inputs = found.inputs
        # After a failed update, the engine has the new inputs, and the state has the applied ones.
        applied = prune(found.live, normalise(old.inputs)) if old.inputs else inputs
        outputs = made.of(applied, found.live)
        mark_secrets(outputs, old_outputs)
        mark_secrets(inputs, source)
        identifier = request.id or objects.identifier(found.live)
        if found.problem is not None:
            raise init_failed(str(found.problem), found.problem, identifier, outputs, inputs)
        return response(id=identifier, properties=values.encode(outputs), inputs=values.encode(inputs))

    def _read_unreachable(self, request: provider_pb2.ReadRequest) -> provider_pb2.ReadResponse:
        response = protocol.provider_pb2.ReadResponse
        self._warn_unreachable(request.urn)
        if self._settings.delete_unreachable:
            self._say_deleting_unreachable(request.urn)
            return response()
        raise ProviderError(f"failed to read resource state due to unreachable cluster. {DELETE_ANYWAY}")
