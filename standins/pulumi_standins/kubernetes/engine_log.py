"""Messages for the user during an operation on a resource."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import grpc

from pulumi_standins import protocol, serving


class EngineLog:
    """The log of the Pulumi engine that started us.

    Parameters:
        address: host and port of the engine; without one, nothing is sent until `attach`.
    """

    def __init__(self, address: str) -> None:
        self._stub: Any = None
        self._said: set[str] = set()
        self.attach(address)

    def attach(self, address: str) -> None:
        """Send to the engine at this address; without one, send nothing."""
        if address:
            channel = grpc.insecure_channel(address, options=serving.CHANNEL_OPTIONS)
            self._stub = protocol.engine_pb2_grpc.EngineStub(channel)

    def log(self, urn: str, message: str, *, warning: bool = False) -> None:
        """A line that stays in the output."""
        self._send(urn, message, warning=warning, ephemeral=False)

    def status(self, urn: str, message: str, *, warning: bool = False) -> None:
        """A line that the next one replaces; an empty line clears it, and is sent only if a line is shown."""
        if message:
            self._said.add(urn)
        elif urn not in self._said:
            return
        else:
            self._said.discard(urn)
        self._send(urn, message, warning=warning, ephemeral=True)

    def _send(self, urn: str, message: str, *, warning: bool, ephemeral: bool) -> None:
        if self._stub is None:
            return
        severity = protocol.engine_pb2.WARNING if warning else protocol.engine_pb2.INFO
        request = protocol.engine_pb2.LogRequest(
            severity=severity, message=message, urn=urn, ephemeral=ephemeral
        )
        # The message must arrive before our answer to the call: the engine may end us after the answer.
        with suppress(grpc.RpcError):
            self._stub.Log(request, timeout=10)
