"""Rewrite objects of built-in kinds like a typed Go client, by a generated table of their fields."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from pulumi_standins.kubernetes import quantities
from pulumi_standins.kubernetes.objects import kind_of
from pulumi_standins.kubernetes.values import Object

_TABLE = Path(__file__).with_name("fields.json")


class _MismatchError(Exception):
    """A value has not its field's type; a typed client refuses the whole object."""


@functools.cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(_TABLE.read_bytes())
    return table


def round_trip(obj: Object) -> Object:
    """The object without unknown fields and empty optional values, and with canonical quantities.

    Objects of other kinds, and objects with values of a wrong type, are returned unchanged.
    """
    name = _table()["kinds"].get(str(kind_of(obj)))
    if name is None:
        return obj
    try:
        converted: Object = _convert(obj, name)
    except _MismatchError:
        return obj
    return converted


def _convert(value: Any, name: str) -> Any:
    if name == "any":
        return value
    if name == "quantity":
        try:
            return quantities.canonical(str(value))
        except ValueError as error:
            raise _MismatchError from error
    if name in ("string", "bool", "number"):
        return _scalar(value, name)
    if name.startswith("[]"):
        if not isinstance(value, list):
            raise _MismatchError
        return [_convert(item, name[2:]) for item in value]
    if not isinstance(value, dict):
        raise _MismatchError
    if name.startswith("{}"):
        return {key: _convert(item, name[2:]) for key, item in value.items()}
    return _struct(value, _table()["types"][name])


def _scalar(value: Any, name: str) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    expected = {"string": isinstance(value, str), "bool": isinstance(value, bool), "number": is_number}
    if not expected[name]:
        raise _MismatchError
    return value


def _struct(value: Object, fields: dict[str, str]) -> Object:
    converted = {}
    for key, item in value.items():
        name = fields.get(key)
        if name is None or item is None:
            continue
        found = _convert(item, name.removesuffix("?"))
        if name.endswith("?") and found in ("", 0, False, [], {}):
            continue
        converted[key] = found
    return converted
