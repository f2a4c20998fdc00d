"""Create, Update and Delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf import empty_pb2

from pulumi_standins import protocol
from pulumi_standins.kubernetes import creation, deletion, objects, state, updating, values
from pulumi_standins.kubernetes.calls.configured import DELETE_ANYWAY, Configured
from pulumi_standins.kubernetes.errors import (
    ApiError,
    NoSuchKindError,
    NotReadyError,
    UnconfirmedError,
    UnreachableError,
)
from pulumi_standins.kubernetes.normalise import normalise
from pulumi_standins.kubernetes.rpc_errors import ProviderError, init_failed, rpc_method
from pulumi_standins.kubernetes.secret_marks import mark_secrets
from pulumi_standins.kubernetes.session import Session
from pulumi_standins.kubernetes.values import Object

if TYPE_CHECKING:
    from pulumi.runtime.proto import provider_pb2


_ALREADY_THERE = (
    "\n\nThe cluster already has the object. If you renamed the resource, give it an alias. To manage the existing "
    "object, use `pulumi import`; to change only some of its fields, use a Patch resource. To adopt every existing "
    "object, set the provider's option upsertExistingObjects."
)


class WriteCalls(Configured):
    """Create, Update and Delete."""

    @rpc_method
    def Create(self, request: provider_pb2.CreateRequest) -> provider_pb2.CreateResponse:  # noqa: N802
        """Create the object; a preview uses a dry run. Raises ProviderError."""
        source = values.decode(request.properties)
        inputs: Object = values.plain(source)
        response = protocol.provider_pb2.CreateResponse
        if request.preview and (self._client is None or values.has_unknown(inputs)):
            return response(properties=request.properties)
        session = self._session()
        manager = state.field_manager()
        made = state.Outputs(source, str(inputs.get("apiVersion", "")), manager)
        try:
            if request.preview:
                live = creation.preview(session, request.urn, inputs, manager)
                # A program that reads a status in a preview must get an unknown, not an empty status.
                live.pop("status", None)
                return response(properties=values.encode(made.of(inputs, live)))
            live = creation.create(session, request.urn, inputs, manager, request.timeout)
        except creation.CannotPreviewError:
            return response(properties=request.properties)
        except NotReadyError as problem:
            raise init_failed(
                f'resource "{request.urn}" was successfully created, but the Kubernetes API server reported '
                f"that it failed to fully initialize or become live: {problem}",
                problem,
                objects.identifier(problem.live),
                made.of(inputs, problem.live),
            ) from problem
        except UnconfirmedError as problem:
            raise init_failed(
                f'resource "{request.urn}" was sent to the Kubernetes API server, which has not confirmed the '
                f"creation; the next update or refresh finds out whether the object exists: {problem}",
                problem,
                objects.identifier(problem.sent),
                made.of(inputs, problem.sent),
            ) from problem
        except NoSuchKindError as error:
            raise ProviderError(
                f'creation of resource "{request.urn}" with kind {objects.kind_of(inputs)} failed because the '
                "Kubernetes API server reported that the apiVersion for this resource does not exist. Verify "
                f"that any required CRDs have been created: {error}"
            ) from error
        except (ApiError, creation.FieldConflictError) as error:
            is_there = isinstance(error, ApiError) and error.already_exists
            raise ProviderError(
                f'resource "{request.urn}" was not successfully created by the Kubernetes API server: {error}'
                + (_ALREADY_THERE if is_there else "")
            ) from error
        return response(id=objects.identifier(live), properties=values.encode(made.of(inputs, live)))

    @rpc_method
    def Update(self, request: provider_pb2.UpdateRequest) -> provider_pb2.UpdateResponse:  # noqa: N802
        """Change the object in place; a preview uses a dry run. Raises ProviderError."""
        response = protocol.provider_pb2.UpdateResponse
        source = values.decode(request.news)
        inputs = normalise(values.plain(source))
        if request.preview and (
            self._client is None
            or values.has_unknown(inputs)
            or not self._client.serves(objects.kind_of(inputs))
        ):
            return response(properties=request.news)
        session = self._session()
        outputs = values.decode(request.olds)
        old = state.read(outputs)
        if request.preview and old.is_unconfirmed:
            return response(properties=request.news)
        manager = old.field_manager or state.field_manager()
        initial = old.initial_api_version or str(old.inputs.get("apiVersion", ""))
        made = state.Outputs(source, initial, manager)
        try:
            live = updating.update(
                session,
                request.urn,
                old,
                inputs,
                manager=manager,
                ignored=list(request.ignoreChanges),
                requested_timeout=request.timeout,
                preview=request.preview,
            )
        except (NotReadyError, creation.FieldConflictError, ApiError) as error:
            if isinstance(error, ApiError) and request.preview and error.is_forbidden:
                return response(properties=request.news)
            raise _failed_update(session, request.urn, outputs, inputs, error, made) from error
        except NoSuchKindError as error:
            raise ProviderError(
                f'update of resource "{request.urn}" failed because the Kubernetes API server reported that the '
                "apiVersion for this resource does not exist. Verify that any required CRDs have been created: "
                f"{error}"
            ) from error
        return response(properties=values.encode(made.of(inputs, live)))

    @rpc_method
    def Delete(self, request: provider_pb2.DeleteRequest) -> empty_pb2.Empty:  # noqa: N802
        """Delete the object, and wait until it is gone."""
        if self._client is None:
            return self._drop_from_state(request.urn)
        session = self._session()
        source = values.decode(request.properties)
        old = state.read(source)
        name = objects.split_identifier(request.id)[1]
        try:
            deletion.delete(session, request.urn, old, name, request.timeout)
        except NotReadyError as problem:
            made = state.Outputs(source, old.initial_api_version, old.field_manager)
            outputs = made.of(old.inputs, problem.live)
            raise init_failed(str(problem), problem, objects.identifier(problem.live), outputs) from problem
        except UnreachableError as problem:
            if not self._settings.delete_unreachable:
                raise
            # The cluster answered at Configure, but this update may have replaced it since.
            self._client, self._unreachable_reason = None, str(problem)
            return self._drop_from_state(request.urn)
        return empty_pb2.Empty()

    def _drop_from_state(self, urn: str) -> empty_pb2.Empty:
        self._warn_unreachable(urn)
        if not self._settings.delete_unreachable:
            raise ProviderError(f"configured Kubernetes cluster is unreachable. {DELETE_ANYWAY}")
        self._say_deleting_unreachable(urn)
        return empty_pb2.Empty()


def _failed_update(
    session: Session,
    urn: str,
    old_outputs: Object,
    inputs: Object,
    error: Exception,
    made: state.Outputs,
) -> ProviderError:
    """Save the new inputs in the state, with the present object: the next update starts from there."""
    old = state.read(old_outputs)
    try:
        kind, live = objects.kind_of(old.live), old.live
        live = session.client.get(kind, objects.namespace_of(live), objects.name_of(live))
    except (ApiError, NoSuchKindError) as reading_error:
        return ProviderError(
            f'update of resource "{urn}" failed: {error}\nunable to get cluster state: {reading_error}'
        )
    identifier = objects.identifier(live)
    message = (
        f'the Kubernetes API server reported that "{identifier}" failed to fully initialize or become '
        f"live: {error}"
    )
    outputs = made.of(inputs, live)
    # The object still has the fields that this update should have removed.
    mark_secrets(outputs, old_outputs)
    return init_failed(message, error, identifier, outputs)
