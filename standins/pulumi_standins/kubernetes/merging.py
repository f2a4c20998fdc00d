"""Client-side apply: the JSON merge patch (RFC 7386) of an update, from old inputs, new inputs and the object."""

from __future__ import annotations

import copy
from typing import Any

from pulumi_standins.kubernetes import field_managers
from pulumi_standins.kubernetes.objects import remove
from pulumi_standins.kubernetes.prune import prune
from pulumi_standins.kubernetes.values import Object

# What the path of the request says; the object and the inputs may spell it in two ways.
_IDENTITY = [["apiVersion"], ["kind"], ["metadata", "name"], ["metadata", "namespace"]]


def merge_patch(old: Object, new: Object, live: Object, ignored: list[str]) -> Object:
    """The patch that gives the object what the new inputs have, and takes from it what only the old ones have.

    Additions and changes are those against the object itself: an earlier update may have failed, or somebody else
    may have changed it.

    Parameters:
        old: the inputs of the last update that the server has taken.
        ignored: property paths, as in `ignoreChanges`, that the patch leaves alone; those into lists have no effect.
    """
    old, new = copy.deepcopy(old), copy.deepcopy(new)
    for steps in [*_IDENTITY, *field_managers.ignorable(ignored)]:
        remove(old, *steps)
        remove(new, *steps)
    return _patch(old, new, prune(live, new))


def _patch(old: Object, new: Object, live: Object) -> Object:
    patch: Object = dict.fromkeys(old.keys() - new.keys())
    for key, after in new.items():
        before, current = old.get(key), live.get(key)
        if isinstance(after, dict):
            inner = _patch(_map(before), after, _map(current))
            if inner or not isinstance(current, dict):
                patch[key] = inner
        elif before != after or current != after:
            patch[key] = after
    return patch


def _map(value: Any) -> Object:
    return value if isinstance(value, dict) else {}
