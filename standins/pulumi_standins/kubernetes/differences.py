"""The detailed difference between two objects, as property paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pulumi_standins.kubernetes.values import Object, Unknown

Step = str | int
_MISSING = object()


class Change(StrEnum):
    """What happens to a property; the names are those of provider.proto's PropertyDiff.Kind."""

    ADD = "ADD"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True)
class Difference:
    """One changed property. `value` is the new value, None for deletions and unknowns."""

    path: tuple[Step, ...]
    change: Change
    value: Any

    @property
    def property_path(self) -> str:
        """The path in Pulumi's spelling: `spec.containers[0].image`, `metadata.labels["a.b/c"]`."""
        text = ""
        for step in self.path:
            if isinstance(step, int):
                text += f"[{step}]"
            elif any(character in step for character in '."[]'):
                escaped = step.replace('"', '\\"')
                text += f'["{escaped}"]'
            else:
                text += f".{step}" if text else step
        return text


def compare(old: Object, new: Object) -> list[Difference]:
    """All differences, each at the deepest path where both sides still have the same shape."""
    return list(_compare((), old, new))


def _compare(path: tuple[Step, ...], old: Any, new: Any) -> Iterator[Difference]:
    if isinstance(new, Unknown):
        yield Difference(path, Change.ADD if old is _MISSING else Change.UPDATE, None)
    elif old is _MISSING:
        yield Difference(path, Change.ADD, new)
    elif new is _MISSING:
        yield Difference(path, Change.DELETE, None)
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _compare((*path, key), old.get(key, _MISSING), new.get(key, _MISSING))
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            before = old[index] if index < len(old) else _MISSING
            after = new[index] if index < len(new) else _MISSING
            yield from _compare((*path, index), before, after)
    elif (type(old) is not type(new) and not _are_numbers(old, new)) or old != new:
        yield Difference(path, Change.UPDATE, new)


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def touches(difference: Difference, path: Sequence[str]) -> bool:
    """Whether the change is at, below or above a path; in the path, `*` stands for each list element."""
    value: Any = difference.value
    for depth, wanted in enumerate(path):
        if depth < len(difference.path):
            step = difference.path[depth]
            if not (step == wanted or (wanted == "*" and isinstance(step, int))):
                return False
        else:
            return _contains(value, path[depth:])
    return True


def _contains(value: Any, path: Sequence[str]) -> bool:
    if not path:
        return True
    if path[0] == "*" and isinstance(value, list):
        return any(_contains(item, path[1:]) for item in value)
    if isinstance(value, dict) and path[0] in value:
        return _contains(value[path[0]], path[1:])
    return False
