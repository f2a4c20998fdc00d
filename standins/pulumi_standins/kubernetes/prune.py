"""Reduce a live object to the fields of its inputs."""

from __future__ import annotations

import copy
from typing import Any

from pulumi_standins.kubernetes.values import Object


def prune(live: Object, shape: Object) -> Object:
    """Keep the parts of `live` that `shape` has, too, at every level; the values are `live`'s.

    Lists are matched by position; further elements are left out. If the two differ in type, the whole live value is
    kept, so that a comparison shows it.
    """
    return {key: _prune(value, shape[key]) for key, value in live.items() if key in shape}


def _prune(live: Any, shape: Any) -> Any:
    if isinstance(live, dict) and isinstance(shape, dict):
        return prune(live, shape)
    if isinstance(live, list) and isinstance(shape, list):
        return _prune_list(live, shape)
    if live is None and shape == []:
        # Servers print an empty list without `omitempty` like this.
        return []
    return copy.deepcopy(live)


def _prune_list(live: list[Any], shape: list[Any]) -> list[Any]:
    if not live or not shape:
        return []
    if type(live[0]) is not type(shape[0]):
        return copy.deepcopy(live)
    return [_prune(value, wanted) for value, wanted in zip(live, shape, strict=False)]
