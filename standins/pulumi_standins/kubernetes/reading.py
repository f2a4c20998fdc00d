"""Read an object for a refresh or an import."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from pulumi_standins.kubernetes import awaiting, posting, type_tokens
from pulumi_standins.kubernetes.errors import NotReadyError
from pulumi_standins.kubernetes.normalise import normalise
from pulumi_standins.kubernetes.objects import LAST_APPLIED, kind_of, nested, remove, split_identifier
from pulumi_standins.kubernetes.prune import prune
from pulumi_standins.kubernetes.session import Session
from pulumi_standins.kubernetes.state import State
from pulumi_standins.kubernetes.values import Object

_NOT_INPUTS = {"status"}


@dataclass
class ReadResult:
    """The result of a refresh or an import.

    Parameters:
        live: the server's object.
        inputs: the inputs that a program needs for this object.
        problem: why the object is not ready, if it is not.
    """

    live: Object
    inputs: Object
    problem: NotReadyError | None = None


def read(session: Session, urn: str, identifier: str, old: State, old_inputs: Object) -> ReadResult | None:
    """The present object, or None if it or its kind is gone.

    Parameters:
        old: the state so far; empty for an import.
        old_inputs: the plain inputs so far; empty for an import.

    Raises ValueError for an id without a name.
    """
    namespace, name = split_identifier(identifier)
    if not name:
        raise ValueError(f"failed to read resource: no name in the id {identifier!r}")
    inputs = normalise(copy.deepcopy(old_inputs))
    is_import = not inputs.get("kind") and not old.live.get("kind")
    if not inputs.get("kind"):
        declared = type_tokens.kind_of(urn)
        kind = declared.kind
        if type_tokens.is_patch(urn, kind.removesuffix("Patch")):
            kind = kind.removesuffix("Patch")
        inputs = {
            **inputs,
            "apiVersion": old.live.get("apiVersion", declared.api_version),
            "kind": old.live.get("kind", kind),
            "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        }
    if old.is_unconfirmed and posting.confirm(session, old) is None:
        return None
    live = session.client.find(kind_of(inputs), namespace, name)
    if live is None:
        return None
    if is_import:
        return ReadResult(live, _all_inputs(live))
    problem = None
    try:
        live = awaiting.check_ready(session, urn, inputs, live)
    except NotReadyError as error:
        problem, live = error, error.live
    return ReadResult(live, prune(live, inputs), problem)


def _all_inputs(live: Object) -> Object:
    """Everything that a program could set; fields from servers and controllers are left out."""
    inputs = normalise({key: copy.deepcopy(value) for key, value in live.items() if key not in _NOT_INPUTS})
    for name in ("deployment.kubernetes.io/revision", LAST_APPLIED):
        remove(inputs, "metadata", "annotations", name)
    if nested(inputs, "metadata", "annotations") == {}:
        remove(inputs, "metadata", "annotations")
    return inputs
