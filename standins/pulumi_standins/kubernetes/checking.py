"""Check: turn a program's inputs into the inputs for the state and for all other operations."""

from __future__ import annotations

from typing import Any

from pulumi_standins import border
from pulumi_standins.kubernetes import naming, scopes, type_tokens
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.engine_log import EngineLog
from pulumi_standins.kubernetes.normalise import normalise
from pulumi_standins.kubernetes.objects import AUTONAMED, assign, name_of, nested
from pulumi_standins.kubernetes.secret_marks import mark_secrets
from pulumi_standins.kubernetes.values import Object, plain

_MANAGED_BY = "app.kubernetes.io/managed-by"


class InvalidInputsError(Exception):
    """The inputs are wrong for every cluster."""


def check(
    *,
    urn: str,
    news: Object,
    olds: Object,
    seed: bytes,
    autonaming: Any,
    namespace: str,
    scope: scopes.Scopes,
    client: ApiClient | None,
    engine: EngineLog,
) -> Object:
    """The checked inputs; secret values stay secret.

    Parameters:
        olds: the inputs of the last run, empty for a new resource.
        namespace: for namespaced objects that name no namespace.
        seed: for automatic names; the engine sends the same seed for preview and update.
        autonaming: the engine's proposal and mode, or None.
        client: None while the cluster cannot be reached.

    Raises:
        InvalidInputsError: the inputs are wrong for every cluster.
        ValueError: the project forbids automatic names.
        UnreachableError: only the server knows whether the kind has namespaces, and it is unreachable.
    """
    if refusal := border.refused_type(type_tokens.type_of(urn)):
        raise InvalidInputsError(refusal)
    if type_tokens.is_list(urn):
        raise InvalidInputsError(
            "list resources exist for compatibility with YAML manifests and Helm charts, and cannot be "
            "created directly. Use the underlying resource type instead"
        )
    inputs: Object = plain(news)
    is_patch = type_tokens.is_patch(urn, str(inputs.get("kind", "")))
    _set_kind(urn, inputs, is_patch=is_patch)
    normalise(inputs)
    if is_patch and not nested(inputs, "metadata", "name"):
        raise InvalidInputsError("patch resources require the `.metadata.name` field to be set")
    _check_annotations(urn, inputs, engine)
    if olds:
        old = plain(olds)
        naming.adopt_name(inputs, old)
        if nested(old, "metadata", "labels", _MANAGED_BY) == "pulumi":
            assign(inputs, "pulumi", "metadata", "labels", _MANAGED_BY)
    else:
        naming.assign_name(inputs, resource=type_tokens.name_of(urn), seed=seed, options=autonaming)
    if not name_of(inputs) and nested(inputs, "metadata", "generateName"):
        raise InvalidInputsError(
            "the `.metadata.generateName` field is not supported in Server-Side Apply mode"
        )
    if namespace and not nested(inputs, "metadata", "namespace") and scope.is_namespaced(inputs, client):
        assign(inputs, namespace, "metadata", "namespace")
    scope.remember(inputs)
    mark_secrets(inputs, news)
    return inputs


def _set_kind(urn: str, inputs: Object, *, is_patch: bool) -> None:
    """Add apiVersion and kind: the SDK sends both; a YAML program may give only the type."""
    declared = type_tokens.kind_of(urn)
    inputs.setdefault("apiVersion", declared.api_version)
    inputs.setdefault("kind", declared.kind.removesuffix("Patch") if is_patch else declared.kind)


def _check_annotations(urn: str, inputs: Object, engine: EngineLog) -> None:
    annotations = nested(inputs, "metadata", "annotations", default={})
    if not isinstance(annotations, dict):
        return
    for name in annotations:
        if border.is_refused_annotation(name):
            raise InvalidInputsError(border.refusal(f"the annotation {name}"))
    if AUTONAMED in annotations:
        engine.log(urn, f'ignoring user-specified value for internal annotation "{AUTONAMED}"', warning=True)
