"""Property values between engine and provider: plain Python, plus secrets and unknowns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf.struct_pb2 import ListValue, Struct, Value

Object = dict[str, Any]

# Fixed by Pulumi's wire format (sdk/go/common/resource/plugin/rpc.go and resource/sig.go).
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_UNKNOWNS = {
    "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
    "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
    "04da6b54-80e4-46f7-96ec-b56ff0331ba9",  # string
    "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
    "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
    "e48ece36-62e2-4504-bad9-02848725956a",  # archive
    "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
}
_UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

# These keys of CRD schemas cannot be property names in the SDKs; the state has them with underscores.
_DASHED = {
    name.replace("-", "_"): name
    for name in (
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    )
}
_UNDERSCORED = {dashed: underscored for underscored, dashed in _DASHED.items()}


class Unknown:
    """A value that only the update can know."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __deepcopy__(self, _memo: object) -> Unknown:
        return self


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Secret:
    """A value that the engine encrypts in the state."""

    value: Any


def decode(struct: Struct) -> Object:
    """A property map; null entries are left out, as in the engine's own marshalling for providers."""
    return {
        key: _decode(value)
        for key, value in struct.fields.items()
        if value.WhichOneof("kind") != "null_value"
    }


def _decode(value: Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        text = value.string_value
        return UNKNOWN if text in _UNKNOWNS else text
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [_decode(item) for item in value.list_value.values]
    if kind == "struct_value":
        return _decode_struct(value.struct_value)
    return None


def _decode_struct(struct: Struct) -> Any:
    signature = struct.fields[_SIGNATURE].string_value if _SIGNATURE in struct.fields else ""
    if signature == _SECRET:
        return Secret(_decode(struct.fields["value"]))
    if signature == _OUTPUT:
        known = _decode(struct.fields["value"]) if "value" in struct.fields else UNKNOWN
        return Secret(known) if struct.fields["secret"].bool_value else known
    return decode(struct)


def encode(properties: Object) -> Struct:
    """The opposite of `decode`."""
    struct = Struct()
    for key, value in properties.items():
        if value is not None:
            _encode(value, struct.fields[key])
    return struct


def _encode(value: Any, into: Value) -> None:
    if isinstance(value, str):
        into.string_value = value
    elif isinstance(value, bool):
        into.bool_value = value
    elif isinstance(value, int | float):
        into.number_value = value
    elif isinstance(value, dict):
        fields = into.struct_value.fields
        into.struct_value.SetInParent()
        for key, item in value.items():
            _encode(item, fields[key])
    elif isinstance(value, list):
        items: ListValue = into.list_value
        items.SetInParent()
        for item in value:
            _encode(item, items.values.add())
    elif isinstance(value, Secret):
        into.struct_value.fields[_SIGNATURE].string_value = _SECRET
        _encode(value.value, into.struct_value.fields["value"])
    elif isinstance(value, Unknown):
        into.string_value = _UNKNOWN
    elif value is None:
        into.null_value = 0
    else:
        raise TypeError(f"the type {type(value).__name__} cannot be a property value")


def plain(value: Any) -> Any:
    """A deep copy in Kubernetes' spelling: secrets opened, schema keys with dashes. Unknowns stay."""
    if isinstance(value, Secret):
        return plain(value.value)
    if isinstance(value, dict):
        return {_DASHED.get(key, key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def underscored(value: Any) -> Any:
    """A deep copy in the SDKs' spelling: schema keys with underscores."""
    if isinstance(value, dict):
        return {_UNDERSCORED.get(key, key): underscored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [underscored(item) for item in value]
    return value


def has_unknown(value: Any) -> bool:
    """Whether a value inside is not known yet."""
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return isinstance(value, Unknown) or (isinstance(value, Secret) and has_unknown(value.value))


def has_secret(value: Any) -> bool:
    """Whether a value inside is secret."""
    if isinstance(value, dict):
        return any(has_secret(item) for item in value.values())
    if isinstance(value, list):
        return any(has_secret(item) for item in value)
    return isinstance(value, Secret)
