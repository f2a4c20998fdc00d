"""The outputs that the state keeps for an object: writing and reading."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from pulumi_standins.kubernetes.objects import nested
from pulumi_standins.kubernetes.secret_marks import mark_secrets
from pulumi_standins.kubernetes.values import Object, Secret, plain, underscored

_INPUTS = "__inputs"
_INITIAL_API_VERSION = "__initialApiVersion"
_FIELD_MANAGER = "__fieldManager"


@dataclass(frozen=True)
class State:
    """The outputs of an earlier run, with secrets opened.

    Parameters:
        inputs: the plain inputs of that run.
        live: the object as that run last saw it.
        initial_api_version: the apiVersion that the object was created with.
        field_manager: our field manager's name for the object.
    """

    inputs: Object
    live: Object
    initial_api_version: str
    field_manager: str

    @property
    def is_unconfirmed(self) -> bool:
        """Whether the object was sent and not seen since: it has no uid, which only servers give."""
        return bool(self.live) and not nested(self.live, "metadata", "uid")


def read(outputs: Object) -> State:
    """Read outputs that we or the real plugin wrote, in any version 3.x or 4.x."""
    live: Object = plain(outputs)
    inputs = live.pop(_INPUTS, None) or {}
    return State(
        inputs=inputs,
        live=live,
        initial_api_version=live.pop(_INITIAL_API_VERSION, ""),
        field_manager=live.pop(_FIELD_MANAGER, ""),
    )


@dataclass(frozen=True)
class Outputs:
    """Makes the outputs that the state keeps for one resource.

    Parameters:
        source: the property values of the inputs; secrets there are secret in the outputs.
        initial_api_version: the apiVersion that the object was created with.
        field_manager: the name under which the object's fields are ours.
    """

    source: Object
    initial_api_version: str
    field_manager: str

    def of(self, inputs: Object, live: Object) -> Object:
        """The outputs, from the plain inputs as sent and the object as the server returned it."""
        kept: Object = underscored(live)
        kept_inputs: Object = underscored(inputs)
        mark_secrets(kept, self.source)
        mark_secrets(kept_inputs, self.source)
        has_secret_texts = isinstance(self.source.get("stringData"), Secret)
        if has_secret_texts and "data" in kept and not isinstance(kept["data"], Secret):
            kept["data"] = Secret(kept["data"])
        kept[_INPUTS] = kept_inputs
        kept[_INITIAL_API_VERSION] = self.initial_api_version
        kept[_FIELD_MANAGER] = self.field_manager
        return kept


def field_manager() -> str:
    """A new field manager's name for an object, with 8 hex digits."""
    return f"pulumi-kubernetes-{secrets.token_hex(4)}"
