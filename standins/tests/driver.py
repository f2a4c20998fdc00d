"""Drives the provider in this process the way the engine does, without CLI and program: for fast tests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
from pulumi_standins import protocol
from pulumi_standins.kubernetes import values
from pulumi_standins.kubernetes.provider import Provider

Object = dict[str, Any]


class CallError(Exception):
    """The provider answered with an error.

    Parameters:
        partial: what it wants kept in the state nevertheless.
    """

    def __init__(self, message: str, partial: Any = None) -> None:
        super().__init__(message)
        self.partial = partial


class _Context:
    """The part of a gRPC context that the provider uses."""

    def __init__(self) -> None:
        self._trailing: tuple[tuple[str, bytes], ...] = ()

    def set_trailing_metadata(self, metadata: Any) -> None:
        self._trailing = metadata

    def abort(self, code: grpc.StatusCode, message: str) -> None:
        partial = None
        for key, value in self._trailing:
            if key == "grpc-status-details-bin":
                status = protocol.status_pb2.Status.FromString(value)
                partial = protocol.provider_pb2.ErrorResourceInitFailed()
                status.details[0].Unpack(partial)
        raise CallError(message, partial)

    def add_callback(self, _callback: Callable[[], None]) -> bool:
        return True


@dataclass
class Resource:
    """A resource in the state."""

    urn: str
    id: str
    inputs: Object
    outputs: Object


@dataclass
class Plan:
    """What an update would do."""

    action: str
    """create, same, update or replace"""
    inputs: Object
    changes: dict[str, str] = field(default_factory=dict)
    deletes_first: bool = False


class Driver:
    """One configured provider.

    Parameters:
        arguments: those of the provider resource, as strings.
    """

    def __init__(self, **arguments: str) -> None:
        self.provider = Provider("")
        self.log: list[str] = []
        engine = self.provider._engine
        engine._send = self._record  # type: ignore[method-assign, assignment]
        variables = {f"kubernetes:config:{name}": value for name, value in arguments.items()}
        self.call("Configure", protocol.provider_pb2.ConfigureRequest(variables=variables))

    def _record(self, _urn: str, message: str, *, warning: bool, ephemeral: bool) -> None:
        self.log.append(f"warning: {message}" if warning else message)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.provider.stop()

    def call(self, method: str, request: Any) -> Any:
        """One call of the service."""
        return getattr(self.provider, method)(request, _Context())

    def check(
        self, obj: Object, *, name: str = "it", old: Resource | None = None, token: str = ""
    ) -> tuple[str, Object]:
        """The URN and the checked inputs."""
        urn = urn_of(obj, name, token)
        request = protocol.provider_pb2.CheckRequest(
            urn=urn,
            news=values.encode(obj),
            olds=values.encode(old.inputs if old else {}),
            randomSeed=os.urandom(16),
        )
        answer = self.call("Check", request)
        if answer.failures:
            raise CallError("; ".join(failure.reason for failure in answer.failures))
        return urn, values.decode(answer.inputs)

    def create(
        self, obj: Object, *, name: str = "it", timeout: float = 600, preview: bool = False, token: str = ""
    ) -> Resource:
        """Check and create; a failed creation that left something raises CallError with it."""
        urn, inputs = self.check(obj, name=name, token=token)
        request = protocol.provider_pb2.CreateRequest(
            urn=urn, properties=values.encode(inputs), timeout=timeout, preview=preview
        )
        answer = self.call("Create", request)
        return Resource(urn, answer.id, inputs, values.decode(answer.properties))

    def fail_to_create(self, obj: Object, *said: str, name: str = "it") -> CallError:
        """Create until the time is up; again with more time while the findings or the log lack something.

        How soon controllers act is a matter of the machine.

        Parameters:
            said: parts of lines that have to be in the findings or in the log.
        """
        for seconds in (3.0, 15.0, 60.0, 240.0):
            self.log.clear()
            try:
                self.create(obj, name=name, timeout=seconds)
            except CallError as error:
                if error.partial is None:
                    raise
                lines = [*error.partial.reasons, *self.log]
                if all(any(part in line for line in lines) for part in said):
                    return error
                self.delete(
                    Resource(urn_of(obj, name), error.partial.id, {}, values.decode(error.partial.properties))
                )
        raise AssertionError(f"{said} should be in {lines}")

    def plan(self, old: Resource, obj: Object, *, ignored: list[str] | None = None) -> Plan:
        """Check and diff."""
        _, inputs = self.check(obj, old=old, name=old.urn.split("::")[-1], token=old.urn.split("::")[2])
        request = protocol.provider_pb2.DiffRequest(
            id=old.id,
            urn=old.urn,
            olds=values.encode(old.outputs),
            news=values.encode(inputs),
            ignoreChanges=ignored or [],
        )
        answer = self.call("Diff", request)
        kinds = protocol.provider_pb2.PropertyDiff.Kind
        changes = {path: kinds.Name(diff.kind) for path, diff in answer.detailedDiff.items()}
        has_changes = answer.changes == protocol.provider_pb2.DiffResponse.DIFF_SOME
        action = "replace" if answer.replaces else "update" if has_changes else "same"
        return Plan(action, inputs, changes, answer.deleteBeforeReplace)

    def update(
        self,
        old: Resource,
        obj: Object,
        *,
        preview: bool = False,
        ignored: list[str] | None = None,
        timeout: float = 600,
    ) -> Resource:
        """Check and update in place."""
        _, inputs = self.check(obj, old=old, name=old.urn.split("::")[-1], token=old.urn.split("::")[2])
        request = protocol.provider_pb2.UpdateRequest(
            id=old.id,
            urn=old.urn,
            olds=values.encode(old.outputs),
            news=values.encode(inputs),
            preview=preview,
            ignoreChanges=ignored or [],
            timeout=timeout,
        )
        answer = self.call("Update", request)
        return Resource(old.urn, old.id, inputs, values.decode(answer.properties))

    def read(self, old: Resource) -> Resource | None:
        """Refresh; None when it is gone."""
        request = protocol.provider_pb2.ReadRequest(
            id=old.id, urn=old.urn, properties=values.encode(old.outputs), inputs=values.encode(old.inputs)
        )
        answer = self.call("Read", request)
        if not answer.id:
            return None
        return Resource(old.urn, answer.id, values.decode(answer.inputs), values.decode(answer.properties))

    def delete(self, old: Resource, *, timeout: float = 600) -> None:
        """Delete and wait."""
        request = protocol.provider_pb2.DeleteRequest(
            id=old.id, urn=old.urn, properties=values.encode(old.outputs), timeout=timeout
        )
        self.call("Delete", request)

    def apply(self, old: Resource, obj: Object) -> Resource:
        """What the engine does about a change: nothing, an update or a replacement."""
        plan = self.plan(old, obj)
        if plan.action == "same":
            return old
        if plan.action == "update":
            return self.update(old, obj)
        if plan.deletes_first:
            self.delete(old)
            return self.create(obj, name=old.urn.split("::")[-1], token=old.urn.split("::")[2])
        made = self.create(obj, name=old.urn.split("::")[-1], token=old.urn.split("::")[2])
        self.delete(old)
        return made

    @contextlib.contextmanager
    def made(self, obj: Object, **options: Any) -> Any:
        """A resource for the time of a block."""
        resource = self.create(obj, **options)
        try:
            yield resource
        finally:
            self.delete(resource)


def urn_of(obj: Object, name: str, token: str = "") -> str:
    """The URN that the SDK would give the object's resource."""
    if not token:
        group, _, version = obj["apiVersion"].rpartition("/")
        token = f"kubernetes:{group or 'core'}/{version}:{obj['kind']}"
    return f"urn:pulumi:stack::project::{token}::{name}"
