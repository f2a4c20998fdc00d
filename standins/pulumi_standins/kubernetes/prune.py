"""Reduce a live object to the shape of the inputs it came from."""

from __future__ import annotations

import copy
from typing import Any

from pulumi_standins.kubernetes.values import Object


def prune(live: Object, shape: Object) -> Object:
    """Keep of `live` only what `shape` has too, at every level; values are those of `live`.

    Lists are matched by position; elements that `shape` does not reach are left out. Where the two differ in
    type, the live value is kept whole, so that a comparison shows it.
    """
    return {key: _prune(value, shape[key]) for key, value in live.items() if key in shape}


def _prune(live: Any, shape: Any) -> Any:
    if isinstance(live, dict) and isinstance(shape, dict):
        return prune(live, shape)
    if isinstance(live, list) and isinstance(shape, list):
        return _prune_list(live, shape)
    if live is None and shape == []:
        # How servers print an empty list that has no `omitempty`.
        return []
    return copy.deepcopy(live)


def _prune_list(live: list[Any], shape: list[Any]) -> list[Any]:
    if not live or not shape:
        return []
    if type(live[0]) is not type(shape[0]):
        return copy.deepcopy(live)
    return [_prune(value, wanted) for value, wanted in zip(live, shape, strict=False)]
