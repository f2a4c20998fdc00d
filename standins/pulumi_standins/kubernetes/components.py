"""The components that the provider itself makes: yaml/v2 ConfigFile and ConfigGroup, kustomize/v2 Directory."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc

from pulumi_standins import protocol, serving
from pulumi_standins.kubernetes import secret_sources, values, yaml_manifests
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.objects import (
    SKIP_AWAIT,
    Kind,
    annotation,
    assign,
    identifier,
    is_crd,
    kind_of,
    name_of,
    namespace_of,
    nested,
)
from pulumi_standins.kubernetes.scopes import Scopes
from pulumi_standins.kubernetes.secret_sources import Child
from pulumi_standins.kubernetes.values import Object

if TYPE_CHECKING:
    from pulumi.runtime.proto import provider_pb2

_DEPENDS_ON = "config.kubernetes.io/depends-on"
_CONFIG_FILE = "kubernetes:yaml/v2:ConfigFile"
_CONFIG_GROUP = "kubernetes:yaml/v2:ConfigGroup"
_DIRECTORY = "kubernetes:kustomize/v2:Directory"


def construct(
    request: provider_pb2.ConstructRequest,
    *,
    scope: Scopes,
    client: ApiClient | None,
    namespace: str,
    version: str,
) -> provider_pb2.ConstructResponse:
    """Register the component and the objects of its manifests as its children.

    Raises:
        ValueError: no such component, or its manifests are broken.
    """
    if request.type not in (_CONFIG_FILE, _CONFIG_GROUP, _DIRECTORY):
        raise ValueError(f'unknown resource type "{request.type}"')
    channel = grpc.insecure_channel(request.monitorEndpoint, options=serving.CHANNEL_OPTIONS)
    try:
        monitor = protocol.resource_pb2_grpc.ResourceMonitorStub(channel)
        urn = _register_component(monitor, request)
        given = values.decode(request.inputs)
        arguments = values.plain(given)
        made: list[Any] = []
        if not values.has_unknown(arguments):
            found = secret_sources.with_sources(_objects(request.type, arguments, given))
            wanted = str(arguments.get("namespace") or namespace)
            yaml_manifests.in_namespace([child.obj for child in found], wanted, scope, client)
            prefix = str(arguments.get("resourcePrefix", request.name))
            children = _Children(monitor, request, urn, prefix, version)
            made = children.register(found, skip_await=arguments.get("skipAwait") is True)
        state = values.encode({"resources": made})
        outputs = protocol.resource_pb2.RegisterResourceOutputsRequest(urn=urn, outputs=state)
        monitor.RegisterResourceOutputs(outputs)
        return protocol.provider_pb2.ConstructResponse(urn=urn, state=state)
    finally:
        channel.close()


def _objects(token: str, arguments: Object, given: Object) -> list[Any]:
    """The objects of a component's arguments, with secrets where the program gave secrets.

    Parameters:
        arguments: the plain arguments.
        given: the same arguments, with their secrets.
    """
    if token == _DIRECTORY:
        return yaml_manifests.kustomize(yaml_manifests.required(arguments, "directory"))
    if token == _CONFIG_FILE:
        return yaml_manifests.read([yaml_manifests.required(arguments, "file")])
    found: list[Any] = []
    found += yaml_manifests.read([str(name) for name in yaml_manifests.listed(arguments, "files")])
    for text in secret_sources.elements(given.get("yaml")):
        decoded = yaml_manifests.decode(str(values.plain(text)))
        found += [values.Secret(obj) for obj in decoded] if isinstance(text, values.Secret) else decoded
    return found + secret_sources.elements(given.get("objs"))


def _register_component(monitor: Any, request: provider_pb2.ConstructRequest) -> str:
    """Register it with all options of the program: the engine hands to children what children inherit."""
    registration = protocol.resource_pb2.RegisterResourceRequest(
        type=request.type,
        name=request.name,
        parent=request.parent,
        custom=False,
        protect=request.protect if request.HasField("protect") else None,
        dependencies=request.dependencies,
        providers=request.providers,
        aliases=request.aliases,
        acceptSecrets=True,
        acceptResources=True,
        additionalSecretOutputs=request.additionalSecretOutputs,
        customTimeouts=_fields(request, "customTimeouts"),
        deletedWith=request.deletedWith,
        deleteBeforeReplace=request.deleteBeforeReplace,
        deleteBeforeReplaceDefined=request.HasField("deleteBeforeReplace"),
        ignoreChanges=request.ignoreChanges,
        replaceOnChanges=request.replaceOnChanges,
        retainOnDelete=request.retainOnDelete if request.HasField("retainOnDelete") else None,
        replace_with=request.replace_with,
        replacement_trigger=request.replacement_trigger if request.HasField("replacement_trigger") else None,
        hooks=_fields(request, "resource_hooks"),
    )
    return str(monitor.RegisterResource(registration).urn)


def _fields(request: Any, name: str) -> Any:
    """A message of the request as its fields, or None: the registration has another type of the same fields."""
    if not request.HasField(name):
        return None
    return {field.name: value for field, value in getattr(request, name).ListFields()}


class _Children:
    """Registers objects, each after those it needs."""

    def __init__(
        self, monitor: Any, request: provider_pb2.ConstructRequest, parent: str, prefix: str, version: str
    ) -> None:
        self._monitor = monitor
        self._parent = parent
        self._prefix = prefix
        self._version = version
        self._provider = request.providers.get("kubernetes", "")

    def register(self, children: list[Child], *, skip_await: bool) -> list[Object]:
        """Register all; returns references to them. Objects without needs go side by side."""
        found = [child.obj for child in children]
        for number, obj in enumerate(found, 1):
            if not obj.get("kind") or not obj.get("apiVersion") or not name_of(obj):
                raise ValueError(
                    f"a Kubernetes object needs kind, apiVersion and metadata.name: object {number} has kind "
                    f"{_text(obj, 'kind')!r}, apiVersion {_text(obj, 'apiVersion')!r} and name {name_of(obj)!r}"
                )
            if skip_await:
                assign(obj, "true", "metadata", "annotations", SKIP_AWAIT)
        order = _in_order(found)
        futures: dict[int, Future[Object]] = {}
        with ThreadPoolExecutor(max_workers=max(1, len(order))) as pool:
            for index, needs in order:
                needed = [futures[need] for need in needs]
                futures[index] = pool.submit(self._register_one, children[index], needed)
            return [futures[index].result() for index in range(len(found))]

    def _register_one(self, child: Child, needed: list[Future[Object]]) -> Object:
        obj = child.obj
        urns = [future.result()["urn"] for future in needed]
        kind = kind_of(obj)
        is_secret = str(kind) == "v1/Secret"
        name = f"{self._prefix}:{identifier(obj)}" if self._prefix else identifier(obj)
        registration = protocol.resource_pb2.RegisterResourceRequest(
            type=f"kubernetes:{kind.group or 'core'}/{kind.version}:{kind.kind}",
            name=name,
            parent=self._parent,
            custom=True,
            object=values.encode(child.properties()),
            dependencies=urns,
            provider=self._provider,
            version=self._version,
            additionalSecretOutputs=["data", "stringData"] if is_secret else [],
            acceptSecrets=True,
            acceptResources=True,
            supportsPartialValues=True,
        )
        answer = self._monitor.RegisterResource(registration)
        return {
            # A resource reference of Pulumi's wire format (sdk/go/common/resource/sig).
            "4dabf18193072939515e22adb298388d": "5cf8f73096256a8f31e491e813e4eb8e",
            "urn": answer.urn,
            "id": answer.id or values.UNKNOWN,
            "packageVersion": self._version,
        }


def _text(obj: Object, key: str) -> str:
    """A field that names; empty where something else is in its place, which may be secret."""
    value = obj.get(key)
    return value if isinstance(value, str) else ""


def _in_order(found: list[Object]) -> list[tuple[int, list[int]]]:
    """Indexes with those they need, needed ones first; raises ValueError for a circle."""
    needs = {index: _needs(obj, found) - {index} for index, obj in enumerate(found)}
    order: list[tuple[int, list[int]]] = []
    placed: set[int] = set()
    while len(order) < len(found):
        ready = [index for index in needs if index not in placed and needs[index] <= placed]
        if not ready:
            raise ValueError(f"objects depend on each other in a circle ({_DEPENDS_ON})")
        order += [(index, sorted(needs[index])) for index in ready]
        placed |= set(ready)
    return order


def _needs(obj: Object, found: list[Object]) -> set[int]:
    """The namespace, the definition of the kind, and what the annotation names."""
    kind, namespace = kind_of(obj), namespace_of(obj)
    named = [text.strip() for text in annotation(obj, _DEPENDS_ON).split(",") if text.strip()]
    return {
        index
        for index, other in enumerate(found)
        if _is_namespace(other, namespace) or _defines(other, kind) or _reference(other) in named
    }


def _is_namespace(other: Object, namespace: str) -> bool:
    return bool(namespace) and str(kind_of(other)) == "v1/Namespace" and name_of(other) == namespace


def _defines(other: Object, kind: Kind) -> bool:
    return (
        is_crd(other)
        and nested(other, "spec", "group") == kind.group
        and nested(other, "spec", "names", "kind") == kind.kind
    )


def _reference(obj: Object) -> str:
    kind, namespace = kind_of(obj), namespace_of(obj)
    middle = f"namespaces/{namespace}/" if namespace else ""
    return f"{kind.group}/{middle}{kind.kind}/{name_of(obj)}"
