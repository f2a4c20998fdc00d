"""The ResourceProvider service of the `kubernetes` package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import empty_pb2

from pulumi_standins import border, emulated, protocol
from pulumi_standins.kubernetes import provider_config, values
from pulumi_standins.kubernetes.calls.check_and_diff import PlanCalls
from pulumi_standins.kubernetes.calls.refresh import ReadCalls
from pulumi_standins.kubernetes.calls.writing import WriteCalls
from pulumi_standins.kubernetes.engine_log import EngineLog
from pulumi_standins.kubernetes.rpc_errors import rpc_method
from pulumi_standins.kubernetes.settings import from_variables, refused

if TYPE_CHECKING:
    from pulumi.runtime.proto import plugin_pb2, provider_pb2


class Provider(PlanCalls, ReadCalls, WriteCalls):
    """Pulumi's `kubernetes` provider.

    Parameters:
        engine: the address of the engine that started us; empty if the address comes later, through Attach.
    """

    def __init__(self, engine: str) -> None:
        super().__init__(EngineLog(engine))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def unimplemented(_request: object, context: grpc.ServicerContext) -> None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{name} is not implemented by this provider")

        return unimplemented

    def stop(self) -> None:
        """End all waits."""
        self._cancelled.set()
        if self._client is not None:
            self._client.transport.break_off()

    @rpc_method
    def Attach(self, request: plugin_pb2.PluginAttach) -> empty_pb2.Empty:  # noqa: N802
        """Set the engine's address, for a provider that runs already."""
        self._engine.attach(request.address)
        return empty_pb2.Empty()

    @rpc_method
    def GetPluginInfo(self, _request: empty_pb2.Empty) -> plugin_pb2.PluginInfo:  # noqa: N802
        """The version whose state we write."""
        return protocol.plugin_pb2.PluginInfo(version=emulated.KUBERNETES_PLUGIN)

    @rpc_method
    def GetSchema(self, _request: Any) -> provider_pb2.GetSchemaResponse:  # noqa: N802
        """Only the name: the schema is for code generation, and the SDKs are already published."""
        return protocol.provider_pb2.GetSchemaResponse(
            schema=f'{{"name":"kubernetes","version":"{emulated.KUBERNETES_PLUGIN}"}}'
        )

    @rpc_method
    def GetMapping(self, _request: Any) -> provider_pb2.GetMappingResponse:  # noqa: N802
        """No mapping from other tools."""
        return protocol.provider_pb2.GetMappingResponse()

    @rpc_method
    def CheckConfig(self, request: provider_pb2.CheckRequest) -> provider_pb2.CheckResponse:  # noqa: N802
        """Accept the arguments; arguments beyond the border are refused by name."""
        given = values.plain(values.decode(request.news))
        failures = [
            protocol.provider_pb2.CheckFailure(property=name.partition(".")[0], reason=reason)
            for name, reason in refused(given).items()
        ]
        return protocol.provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    @rpc_method
    def DiffConfig(self, request: provider_pb2.DiffRequest) -> provider_pb2.DiffResponse:  # noqa: N802
        """Whether the arguments mean another cluster."""
        found = provider_config.diff_config(values.decode(request.olds), values.decode(request.news))
        response = protocol.provider_pb2.DiffResponse
        changes = response.DIFF_SOME if found.changed else response.DIFF_NONE
        return response(changes=changes, diffs=found.changed, replaces=found.replaces)

    @rpc_method
    def Configure(self, request: provider_pb2.ConfigureRequest) -> provider_pb2.ConfigureResponse:  # noqa: N802
        """Connect; an unreachable cluster fails only calls that need it. Raises ValueError for a wrong option."""
        self._settings = from_variables(request.variables)
        connected = provider_config.connect(self._settings, self._cancelled, self._warn)
        self._client, self._namespace = connected.client, connected.namespace
        self._unreachable_reason = connected.reason
        return protocol.provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, supports_autonaming_configuration=True
        )

    @rpc_method
    def Cancel(self, _request: empty_pb2.Empty) -> empty_pb2.Empty:  # noqa: N802
        """End all waits now; their objects stay in the state."""
        self.stop()
        return empty_pb2.Empty()

    @rpc_method
    def Invoke(self, request: provider_pb2.InvokeRequest) -> provider_pb2.InvokeResponse:  # noqa: N802
        """The functions behind the SDK's yaml, kustomize and Helm helpers: beyond the border. Raises ValueError."""
        raise ValueError(border.refused_type(request.tok) or f'unknown Invoke type "{request.tok}"')

    @rpc_method
    def Construct(self, request: provider_pb2.ConstructRequest) -> provider_pb2.ConstructResponse:  # noqa: N802
        """The components of the SDK: beyond the border. Raises ValueError."""
        raise ValueError(border.refused_type(request.type) or f'unknown resource type "{request.type}"')
