"""Errors of the service's methods, and the partial results that the engine keeps with an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf import any_pb2

from pulumi_standins import protocol
from pulumi_standins.kubernetes import values
from pulumi_standins.kubernetes.errors import NotReadyError
from pulumi_standins.kubernetes.values import Object


class ProviderError(Exception):
    """An error for the engine.

    Parameters:
        details: the ErrorResourceInitFailed message of a resource that the state must keep, or None.
    """

    def __init__(self, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.details = details


def rpc_method(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a service method: exceptions become gRPC errors, with the details of a partial result."""

    def call(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(self, request)
        except ProviderError as failure:
            if failure.details is not None:
                packed = any_pb2.Any()
                packed.Pack(failure.details)
                status = protocol.status_pb2.Status(
                    code=grpc.StatusCode.UNKNOWN.value[0], message=str(failure), details=[packed]
                )
                context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            context.abort(grpc.StatusCode.UNKNOWN, str(failure))
        except Exception as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error) or type(error).__name__)

    return call


def init_failed(
    message: str, problem: Exception, identifier: str, outputs: Object, inputs: Object | None = None
) -> ProviderError:
    """The error of a resource that exists but is not ready; the engine keeps the resource in the state.

    Parameters:
        problem: its findings become the resource's `initErrors`, after the message.
        identifier: the resource's id.
        inputs: the present inputs, for a refresh.
    """
    findings = problem.findings if isinstance(problem, NotReadyError) else []
    details = protocol.provider_pb2.ErrorResourceInitFailed(
        id=identifier,
        properties=values.encode(outputs),
        reasons=[message, *findings],
        inputs=values.encode(inputs) if inputs is not None else None,
    )
    return ProviderError(message, details)
