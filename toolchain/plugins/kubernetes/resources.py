"""The part of the service that concerns single resources."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf import empty_pb2

from toolchain.plugins import protocol
from toolchain.plugins.kubernetes import (
    checking,
    creation,
    deletion,
    diffing,
    objects,
    reading,
    scopes,
    state,
    updating,
    values,
)
from toolchain.plugins.kubernetes.answers import ProviderError, answered, partial
from toolchain.plugins.kubernetes.cluster import Cluster
from toolchain.plugins.kubernetes.engine import Engine
from toolchain.plugins.kubernetes.errors import ApiError, NoSuchKindError, NotReadyError
from toolchain.plugins.kubernetes.normalise import normalise
from toolchain.plugins.kubernetes.session import Session
from toolchain.plugins.kubernetes.settings import Settings
from toolchain.plugins.kubernetes.values import Object

if TYPE_CHECKING:
    from pulumi.runtime.proto import provider_pb2

_DELETE_ANYWAY = (
    "If the cluster was deleted, you can remove this resource from Pulumi state by rerunning the operation "
    'with the PULUMI_K8S_DELETE_UNREACHABLE environment variable set to "true"'
)


@dataclass(frozen=True)
class _Keeping:
    """What outputs consist of besides inputs and live object."""

    source: Object
    initial_api_version: str
    field_manager: str

    def outputs(self, inputs: Object, live: Object) -> Object:
        return state.outputs(
            inputs=inputs,
            live=live,
            source=self.source,
            initial_api_version=self.initial_api_version,
            field_manager=self.field_manager,
        )


class ResourceCalls:
    """Check, Diff, Create, Read, Update and Delete."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cancelled = threading.Event()
        self._settings = Settings()
        self._cluster: Cluster | None = None
        self._unreachable_reason = "the provider is not configured"
        self._namespace = ""
        self._scopes = scopes.Scopes()

    def _session(self) -> Session:
        if self._cluster is None:
            raise ProviderError(f"configured Kubernetes cluster is unreachable: {self._unreachable_reason}")
        return Session(self._cluster, self._engine, self._settings, self._cancelled)

    @answered
    def Check(self, request: provider_pb2.CheckRequest) -> provider_pb2.CheckResponse:  # noqa: N802
        """Normalise, name and place the inputs."""
        if self._cluster is None and self._settings.skip_update_unreachable:
            message = "Cluster is unreachable but skipUpdateUnreachable flag is set to true, skipping..."
            self._engine.log(request.urn, message, warning=True)
            return protocol.provider_pb2.CheckResponse(inputs=request.olds)
        checked = checking.check(
            urn=request.urn,
            news=values.decode(request.news),
            olds=values.decode(request.olds),
            seed=request.randomSeed,
            autonaming=request.autonaming if request.HasField("autonaming") else None,
            settings=self._settings,
            namespace=self._namespace,
            scope=self._scopes,
            cluster=self._cluster,
            engine=self._engine,
        )
        return protocol.provider_pb2.CheckResponse(inputs=values.encode(checked))

    @answered
    def Diff(self, request: provider_pb2.DiffRequest) -> provider_pb2.DiffResponse:  # noqa: N802
        """Compare with the last live object."""
        old = state.read(values.decode(request.olds))
        news = values.plain(values.decode(request.news))
        found = diffing.diff(
            request.urn,
            old,
            news,
            ignored=list(request.ignoreChanges),
            settings=self._settings,
            is_namespaced=self._scopes.is_namespaced(news, self._cluster),
        )
        if self._cluster is not None and diffing.must_replace_unready(
            self._session(), request.urn, old, news
        ):
            found.replaces.append('.metadata.annotations["pulumi.com/replaceUnready"]')
            found.deletes_first = diffing.must_delete_first(old.live, news)
        response, property_diff = protocol.provider_pb2.DiffResponse, protocol.provider_pb2.PropertyDiff
        detailed = {}
        for path, change in found.changes.items():
            name = f"{change}_REPLACE" if path in found.replaces else str(change)
            detailed[path] = property_diff(kind=property_diff.Kind.Value(name), inputDiff=change == "DELETE")
        return response(
            changes=response.DIFF_SOME if detailed or found.replaces else response.DIFF_NONE,
            replaces=found.replaces,
            deleteBeforeReplace=found.deletes_first,
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    @answered
    def Create(self, request: provider_pb2.CreateRequest) -> provider_pb2.CreateResponse:  # noqa: N802
        """Create, or try to in a preview."""
        source = values.decode(request.properties)
        inputs: Object = values.plain(source)
        response = protocol.provider_pb2.CreateResponse
        if request.preview and (values.has_unknown(inputs) or self._cluster is None):
            return response(properties=request.properties)
        session = self._session()
        manager = state.field_manager(inputs)
        keeping = _Keeping(source, str(inputs.get("apiVersion", "")), manager)
        try:
            if request.preview:
                live = creation.preview(session, request.urn, inputs)
                # Programs that read a status in a preview must see an unknown, not an empty one.
                live.pop("status", None)
                return response(properties=values.encode(keeping.outputs(inputs, live)))
            live = creation.create(session, request.urn, inputs, manager, request.timeout)
        except creation.CannotPreviewError:
            return response(properties=request.properties)
        except NotReadyError as problem:
            raise partial(
                f'resource "{request.urn}" was successfully created, but the Kubernetes API server reported '
                f"that it failed to fully initialize or become live: {problem}",
                problem,
                objects.identifier(problem.live),
                keeping.outputs(inputs, problem.live),
            ) from problem
        except NoSuchKindError as error:
            raise ProviderError(
                f'creation of resource "{request.urn}" with kind {objects.kind_of(inputs)} failed because the '
                "Kubernetes API server reported that the apiVersion for this resource does not exist. Verify "
                f"that any required CRDs have been created: {error}"
            ) from error
        except ApiError as error:
            raise ProviderError(
                f'resource "{request.urn}" was not successfully created by the Kubernetes API server: {error}'
            ) from error
        return response(id=objects.identifier(live), properties=values.encode(keeping.outputs(inputs, live)))

    @answered
    def Read(self, request: provider_pb2.ReadRequest) -> provider_pb2.ReadResponse:  # noqa: N802
        """Refresh or import; an empty answer means that it is gone."""
        response = protocol.provider_pb2.ReadResponse
        if self._cluster is None:
            return self._read_unreachable(request)
        source = values.decode(request.inputs)
        old = state.read(values.decode(request.properties))
        plain_inputs = values.plain(source)
        found = reading.read(self._session(), request.urn, request.id, old, plain_inputs)
        if found is None:
            return response()
        keeping = _Keeping(
            source,
            old.initial_api_version or str(found.live.get("apiVersion", "")),
            state.field_manager(plain_inputs, old.field_manager),
        )
        outputs = keeping.outputs(found.inputs, found.live)
        inputs = found.inputs
        values.mark_secrets(inputs, source)
        identifier = request.id or objects.identifier(found.live)
        if found.problem is not None:
            raise partial(str(found.problem), found.problem, identifier, outputs, inputs)
        return response(id=identifier, properties=values.encode(outputs), inputs=values.encode(inputs))

    def _read_unreachable(self, request: provider_pb2.ReadRequest) -> provider_pb2.ReadResponse:
        response = protocol.provider_pb2.ReadResponse
        self._warn_unreachable(request.urn)
        if self._settings.delete_unreachable:
            self._say_deleting_unreachable(request.urn)
            return response()
        if self._settings.skip_update_unreachable:
            return response(id=request.id, properties=request.properties, inputs=request.inputs)
        raise ProviderError(f"failed to read resource state due to unreachable cluster. {_DELETE_ANYWAY}")

    def _warn_unreachable(self, urn: str) -> None:
        message = f"configured Kubernetes cluster is unreachable: {self._unreachable_reason}"
        self._engine.log(urn, message, warning=True)

    def _say_deleting_unreachable(self, urn: str) -> None:
        self._engine.log(
            urn,
            "configured Kubernetes cluster is unreachable and the `deleteUnreachable` option is enabled. "
            "Deleting the unreachable resource from Pulumi state",
        )

    @answered
    def Update(self, request: provider_pb2.UpdateRequest) -> provider_pb2.UpdateResponse:  # noqa: N802
        """Change in place, or try to in a preview."""
        response = protocol.provider_pb2.UpdateResponse
        source = values.decode(request.news)
        inputs = normalise(values.plain(source))
        if request.preview and (
            self._cluster is None
            or values.has_unknown(inputs)
            or not self._cluster.serves(objects.kind_of(inputs))
        ):
            return response(properties=request.news)
        session = self._session()
        old = state.read(values.decode(request.olds))
        manager = state.field_manager(inputs, old.field_manager)
        initial = old.initial_api_version or str(old.inputs.get("apiVersion", ""))
        keeping = _Keeping(source, initial, manager)
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
        except (NotReadyError, updating.FieldConflictError, ApiError) as error:
            if isinstance(error, ApiError) and request.preview and error.is_forbidden:
                return response(properties=request.news)
            raise _failed_update(session, request.urn, old, inputs, error, keeping) from error
        if not request.preview and old.field_manager and manager != old.field_manager:
            updating.hand_over(session, live, old.field_manager)
        return response(properties=values.encode(keeping.outputs(inputs, live)))

    @answered
    def Delete(self, request: provider_pb2.DeleteRequest) -> empty_pb2.Empty:  # noqa: N802
        """Delete, and wait until it is gone."""
        if self._cluster is None:
            self._warn_unreachable(request.urn)
            if self._settings.delete_unreachable:
                self._say_deleting_unreachable(request.urn)
                return empty_pb2.Empty()
            raise ProviderError(f"configured Kubernetes cluster is unreachable. {_DELETE_ANYWAY}")
        source = values.decode(request.properties)
        old = state.read(source)
        name = objects.split_identifier(request.id)[1]
        try:
            deletion.delete(self._session(), request.urn, old, name, request.timeout)
        except NotReadyError as problem:
            keeping = _Keeping(source, old.initial_api_version, old.field_manager)
            outputs = keeping.outputs(old.inputs, problem.live)
            raise partial(str(problem), problem, objects.identifier(problem.live), outputs) from problem
        return empty_pb2.Empty()


def _failed_update(
    session: Session, urn: str, old: state.State, inputs: Object, error: Exception, keeping: _Keeping
) -> ProviderError:
    """The new inputs go into the state, with the object as it is now: the next update starts from there."""
    try:
        kind, live = objects.kind_of(old.live), old.live
        live = session.cluster.get(kind, objects.namespace_of(live), objects.name_of(live))
    except (ApiError, NoSuchKindError) as reading_error:
        return ProviderError(
            f'update of resource "{urn}" failed: {error}\nunable to get cluster state: {reading_error}'
        )
    identifier = objects.identifier(live)
    message = (
        f'the Kubernetes API server reported that "{identifier}" failed to fully initialize or become '
        f"live: {error}"
    )
    return partial(message, error, identifier, keeping.outputs(inputs, live))
