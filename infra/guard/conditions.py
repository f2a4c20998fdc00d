"""Conditions on fields of an object, as data: Python evaluates them here, an API server evaluates them in CEL.

Both treat a missing field in the same way. Source of CEL's optional fields and of what Kubernetes adds:
https://kubernetes.io/docs/reference/using-api/cel/
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Bound = Mapping[str, Any]
"""The first word of a path -> what it names: `object`, or a part of the object, such as `container`."""

# Reserved words of CEL: after a dot they may not name a field.
RESERVED = {
    "namespace",
    "package",
    "import",
    "function",
    "in",
    "as",
    "if",
    "else",
    "for",
    "let",
    "var",
    "void",
}
# A variable without a type: an API server checks expressions against the types of all kinds of a policy.
OBJECT = "variables.object"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Allowed:
    """The exceptions of a stack.

    Parameters:
        roots: folders of the nodes below which a hostPath may be.
        unpinned: images that are allowed without a digest.
        repositories: repositories whose images are allowed without a digest.
    """

    roots: tuple[str, ...]
    unpinned: frozenset[str] = field(default_factory=frozenset)
    repositories: tuple[str, ...] = ()


@dataclass(frozen=True)
class Field:
    """The first of several paths that leads to a value."""

    paths: tuple[tuple[str, ...], ...]

    def read(self, bound: Bound) -> Any:
        """The value; None if there is none."""
        for path in self.paths:
            value: Any = bound
            for word in path:
                value = value.get(word) if isinstance(value, Mapping) else None
            if value is not None:
                return value
        return None

    def cel(self) -> str:
        """The field as an optional value of CEL."""
        first, *others = (_chained(path) for path in self.paths)
        return first + "".join(f".or({each})" for each in others)

    def read_text(self, bound: Bound) -> str:
        """The value as text, empty if there is none."""
        return str(self.read(bound) or "")

    def cel_text(self) -> str:
        """The same text in CEL."""
        return f'{self.cel()}.orValue("")'


def at(*words: str) -> Field:
    """The field that this path leads to."""
    return Field((words,))


def _chained(path: tuple[str, ...]) -> str:
    plain = [NAME.fullmatch(word) is not None and word not in RESERVED for word in path]
    steps = [
        f".?{word}" if is_plain else f"[?{text(word)}]"
        for word, is_plain in zip(path[1:], plain[1:], strict=True)
    ]
    first = OBJECT if path[0] == "object" else path[0]
    return first + "".join(steps)


def text(value: object) -> str:
    """A literal of CEL: text, a number, true or false, or a list of them."""
    return json.dumps(value, ensure_ascii=False)


def listed(optional: str) -> str:
    """A list in CEL; empty if the field is missing or null: in Kubernetes an empty list may be null."""
    return f"({optional}.hasValue() && {optional}.value() != null ? {optional}.value() : [])"


class Condition(ABC):
    """A condition that a field has to meet."""

    @abstractmethod
    def holds(self, bound: Bound, allowed: Allowed) -> bool:
        """Whether the object that `bound` names meets the condition."""

    @abstractmethod
    def cel(self, allowed: Allowed) -> str:
        """The same as an expression of CEL."""


@dataclass(frozen=True)
class Present(Condition):
    """The field has a value."""

    field: Field

    def holds(self, bound: Bound, allowed: Allowed) -> bool:
        return self.field.read(bound) is not None

    def cel(self, allowed: Allowed) -> str:
        return f"{self.field.cel()}.hasValue()"


@dataclass(frozen=True)
class Is(Condition):
    """The field has this value; a missing field has none."""

    field: Field
    value: str | bool | int

    def holds(self, bound: Bound, allowed: Allowed) -> bool:
        found = self.field.read(bound)
        return type(found) is type(self.value) and bool(found == self.value)

    def cel(self, allowed: Allowed) -> str:
        return f"{self.field.cel()} == optional.of({text(self.value)})"


@dataclass(frozen=True)
class Contains(Condition):
    """The text of the field contains `part`."""

    field: Field
    part: str

    def holds(self, bound: Bound, allowed: Allowed) -> bool:
        return self.part in self.field.read_text(bound)

    def cel(self, allowed: Allowed) -> str:
        return f"{self.field.cel_text()}.contains({text(self.part)})"


@dataclass(frozen=True)
class Lists(Condition):
    """The field is a list that contains `entry`."""

    field: Field
    entry: str

    def holds(self, bound: Bound, allowed: Allowed) -> bool:
        return self.entry in (self.field.read(bound) or [])

    def cel(self, allowed: Allowed) -> str:
        return f"{text(self.entry)} in {listed(self.field.cel())}"


@dataclass(frozen=True)
class EndsWith(Condition):
    """The text of the field ends with `end`."""

    field: Field
    end: str

    def holds(self, bound: Bound, allowed: Allowed) -> bool:
        return self.field.read_text(bound).endswith(self.end)

    def cel(self, allowed: Allowed) -> str:
        return f"{self.field.cel_text()}.endsWith({text(self.end)})"


@dataclass(frozen=True)
class Unpinned(Condition):
    """The field names an image that the stack allows without a digest."""

    field: Field

    def holds(self, bound: Bound, allowed: Allowed) -> bool:
        image = self.field.read_text(bound)
        return image in allowed.unpinned or any(image.startswith(f"{each}:") for each in allowed.repositories)

    def cel(self, allowed: Allowed) -> str:
        image = self.field.cel_text()
        parts = [f"{image} in {text(sorted(allowed.unpinned))}"]
        parts += [f"{image}.startsWith({text(f'{each}:')})" for each in allowed.repositories]
        return " || ".join(parts)


@dataclass(frozen=True)
class Below(Condition):
    """The field is a path below a folder that the stack allows. A path with `..` is never allowed."""

    field: Field

    def holds(self, bound: Bound, allowed: Allowed) -> bool:
        path = self.field.read_text(bound)
        roots = [_root(each) for each in allowed.roots]
        return ".." not in path.split("/") and any(f"{path}/".startswith(f"{root}/") for root in roots)

    def cel(self, allowed: Allowed) -> str:
        path = self.field.cel_text()
        roots = text([f"{_root(each)}/" for each in allowed.roots])
        return f'!(".." in {path}.split("/")) && {roots}.exists(root, ({path} + "/").startsWith(root))'


def _root(path: str) -> str:
    return path.rstrip("/")


@dataclass(frozen=True)
class Not(Condition):
    """The condition is not met."""

    condition: Condition

    def holds(self, bound: Bound, allowed: Allowed) -> bool:
        return not self.condition.holds(bound, allowed)

    def cel(self, allowed: Allowed) -> str:
        return f"!({self.condition.cel(allowed)})"


@dataclass(frozen=True)
class Either(Condition):
    """One of the conditions is met."""

    conditions: tuple[Condition, ...]

    def holds(self, bound: Bound, allowed: Allowed) -> bool:
        return any(each.holds(bound, allowed) for each in self.conditions)

    def cel(self, allowed: Allowed) -> str:
        return " || ".join(f"({each.cel(allowed)})" for each in self.conditions)


@dataclass(frozen=True)
class Both(Condition):
    """All conditions are met."""

    conditions: tuple[Condition, ...]

    def holds(self, bound: Bound, allowed: Allowed) -> bool:
        return all(each.holds(bound, allowed) for each in self.conditions)

    def cel(self, allowed: Allowed) -> str:
        return " && ".join(f"({each.cel(allowed)})" for each in self.conditions)
