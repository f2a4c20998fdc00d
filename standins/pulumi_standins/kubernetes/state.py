"""The outputs that the state keeps for an object, and how they are read back."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from pulumi_standins.kubernetes.objects import PATCH_FIELD_MANAGER, annotation, nested
from pulumi_standins.kubernetes.secret_marks import mark_secrets
from pulumi_standins.kubernetes.values import Object, Secret, plain, underscored

_INPUTS = "__inputs"
_INITIAL_API_VERSION = "__initialApiVersion"
_FIELD_MANAGER = "__fieldManager"
# The manager of plain creates, and of everything where server-side apply is switched off.
CREATOR = "pulumi-kubernetes"


@dataclass(frozen=True)
class State:
    """The outputs of an earlier run, with secrets opened.

    Parameters:
        inputs: the plain inputs of that run.
        live: the object as that run saw it last.
        initial_api_version: the apiVersion that the object was created with.
        field_manager: the name under which the object's fields are ours.
    """

    inputs: Object
    live: Object
    initial_api_version: str
    field_manager: str

    @property
    def is_unconfirmed(self) -> bool:
        """Whether the object was sent, and nobody has seen it since: only servers give uids."""
        return bool(self.live) and not nested(self.live, "metadata", "uid")


def read(outputs: Object) -> State:
    """Read outputs written by us or by the real plugin, from any 3.x or 4.x version."""
    live: Object = plain(outputs)
    inputs = live.pop(_INPUTS, None) or {}
    return State(
        inputs=inputs,
        live=live,
        initial_api_version=live.pop(_INITIAL_API_VERSION, ""),
        field_manager=live.pop(_FIELD_MANAGER, ""),
    )


def outputs(
    *, inputs: Object, live: Object, source: Object, initial_api_version: str, field_manager: str
) -> Object:
    """The outputs to keep.

    Parameters:
        inputs: the plain inputs as sent.
        live: the object as the server returned it.
        source: the property values that the inputs came from; what is secret there is secret here.
    """
    kept: Object = underscored(live)
    kept_inputs: Object = underscored(inputs)
    mark_secrets(kept, source)
    mark_secrets(kept_inputs, source)
    if (
        isinstance(source.get("stringData"), Secret)
        and "data" in kept
        and not isinstance(kept["data"], Secret)
    ):
        kept["data"] = Secret(kept["data"])
    kept[_INPUTS] = kept_inputs
    kept[_INITIAL_API_VERSION] = initial_api_version
    kept[_FIELD_MANAGER] = field_manager
    return kept


def field_manager(inputs: Object, previous: str = "") -> str:
    """The field manager of an object: by annotation, else the previous one, else a new name with 8 hex digits."""
    return annotation(inputs, PATCH_FIELD_MANAGER) or previous or f"{CREATOR}-{secrets.token_hex(4)}"
