"""Bring inputs into the form of the state, so that equal meanings compare equal."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from pulumi_standins.kubernetes import type_tokens, typed_client
from pulumi_standins.kubernetes.objects import is_crd, kind_of, nested, remove
from pulumi_standins.kubernetes.values import Object, has_unknown

# ObjectMeta's read-only fields; manifests copied from a cluster have them.
_READ_ONLY = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
)


def normalise(obj: Object) -> Object:
    """Normalise in place, and return the object."""
    if not has_unknown(obj) and type_tokens.is_known(kind_of(obj)):
        if is_crd(obj):
            if nested(obj, "spec", "preserveUnknownFields") is False:
                remove(obj, "spec", "preserveUnknownFields")
            remove(obj, "status")
        else:
            if obj.get("kind") == "Secret" and obj.get("apiVersion") == "v1":
                _fold_texts(obj)
            converted = typed_client.round_trip(obj)
            if converted is not obj:
                obj.clear()
                obj.update(converted)
    for field in _READ_ONLY:
        remove(obj, "metadata", field)
    return obj


def _fold_texts(obj: Object) -> None:
    """Move stringData into data, as the server does. A text replaces data of the same key."""
    texts: Any = obj.get("stringData")
    data = obj.get("data")
    if isinstance(texts, dict) and texts:
        data = obj["data"] = data if isinstance(data, dict) else {}
        for key, text in texts.items():
            data[key] = base64.b64encode(str(text).encode()).decode()
        del obj["stringData"]
    elif isinstance(data, dict):
        for key, text in data.items():
            data[key] = _reencoded(text)


def _reencoded(text: Any) -> Any:
    """Base64 as the server prints it: without line breaks."""
    try:
        return base64.b64encode(base64.b64decode("".join(text.split()), validate=True)).decode()
    except (AttributeError, binascii.Error, ValueError):
        return text
