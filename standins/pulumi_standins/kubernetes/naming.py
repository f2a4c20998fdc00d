"""Names for objects that the program does not name."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from pulumi_standins.kubernetes.objects import AUTONAMED, assign, is_annotated, name_of, nested
from pulumi_standins.kubernetes.values import Object, Unknown

# provider.proto, CheckRequest.AutonamingOptions.Mode
_DISABLE = 2


def is_given(inputs: Object) -> bool:
    """Whether the program sets the name, also by an unknown or a generateName."""
    metadata = inputs.get("metadata")
    if isinstance(metadata, Unknown):
        return True
    return bool(nested(metadata, "name")) or bool(nested(metadata, "generateName"))


def is_autonamed(obj: Object) -> bool:
    """Whether this module made the name."""
    return is_annotated(obj, AUTONAMED)


def assign_name(inputs: Object, *, resource: str, seed: bytes, options: Any) -> None:
    """Name a new object after its resource, with 8 hex digits; the engine's proposal has priority.

    The engine sends the same seed for preview and update of a plan, so both see the same name.

    Raises:
        ValueError: the project's configuration forbids automatic names.
    """
    if is_given(inputs):
        return
    if options is not None and options.mode == _DISABLE:
        raise ValueError(f"automatic naming is disabled: give {resource} a metadata.name")
    if options is not None and options.proposed_name:
        name = options.proposed_name
    else:
        name = f"{resource}-{_suffix(seed, resource)}"
    _set_autoname(inputs, name)


def adopt_name(inputs: Object, old: Object) -> None:
    """Keep this resource's earlier automatic name."""
    if not is_given(inputs) and is_autonamed(old):
        _set_autoname(inputs, name_of(old))


def _set_autoname(inputs: Object, name: str) -> None:
    assign(inputs, name, "metadata", "name")
    assign(inputs, "true", "metadata", "annotations", AUTONAMED)


def _suffix(seed: bytes, resource: str) -> str:
    return hashlib.sha256(seed + resource.encode()).hexdigest()[:8] if seed else secrets.token_hex(4)
