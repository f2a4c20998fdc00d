"""The part of kubectl's JSONPath that conditions use: keys, indexes, `[*]` and `[?(@.key=="value")]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(
    r"""
    \.(?P<key>[A-Za-z0-9_\-/]+(?:\\\.[A-Za-z0-9_\-/]+)*)
    | \[(?P<index>-?\d+|\*)\]
    | \[['"](?P<quoted>[^'"]+)['"]\]
    | \[\?\(@\.(?P<field>[A-Za-z0-9_.\-]+)\s*==\s*['"]?(?P<wanted>[^'")]*)['"]?\)\]
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Expression:
    """`jsonpath={.status.phase}=Running`: a path, and the value it must have; None for any value at all."""

    steps: tuple[tuple[str, str], ...]
    value: str | None
    text: str

    def matches(self, obj: Any) -> bool:
        """Whether exactly one value is found, and it is the wanted one; without a wanted one, whether there is any."""
        found = self._find(obj)
        if self.value is None:
            return bool(found) and found[0] not in (None, "")
        return len(found) == 1 and _printed(found[0]) == self.value

    def _find(self, obj: Any) -> list[Any]:
        current = [obj]
        for kind, argument in self.steps:
            current = [found for item in current for found in _step(item, kind, argument)]
        return current


def _step(item: Any, kind: str, argument: str) -> list[Any]:
    if kind == "key":
        return [item[argument]] if isinstance(item, dict) and argument in item else []
    if not isinstance(item, list):
        return []
    if kind == "filter":
        field, _, wanted = argument.partition("=")
        return [entry for entry in item if _printed(_deep(entry, field)) == wanted]
    if argument == "*":
        return item
    index = int(argument)
    return [item[index]] if -len(item) <= index < len(item) else []


def _deep(item: Any, path: str) -> Any:
    for key in path.split("."):
        item = item.get(key) if isinstance(item, dict) else None
    return item


def _printed(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse(text: str) -> Expression:
    """Parse `jsonpath={...}` or `jsonpath={...}=value`; raises ValueError for anything else."""
    match = re.fullmatch(r"jsonpath='?\{([^}]*)\}'?(?:=(.*))?", text, re.DOTALL)
    match = match or re.fullmatch(r"jsonpath=([^={}]+)(?:=(.*))?", text, re.DOTALL)
    if match is None or not match.group(1).strip():
        raise ValueError(f"no JSONPath: {text!r}; expected something like jsonpath={{.status.phase}}=Running")
    path, value = match.group(1).strip(), match.group(2)
    if not path.startswith((".", "[")):
        path = f".{path}"
    return Expression(tuple(_tokens(path, text)), value.strip("'\"") if value is not None else None, text)


def _tokens(path: str, text: str) -> list[tuple[str, str]]:
    steps = []
    position = 0
    while position < len(path):
        match = _TOKEN.match(path, position)
        if match is None:
            raise ValueError(f"cannot read {path[position:]!r} in the JSONPath {text!r}")
        if match.group("key"):
            steps.append(("key", match.group("key").replace("\\.", ".")))
        elif match.group("quoted"):
            steps.append(("key", match.group("quoted")))
        elif match.group("index"):
            steps.append(("index", match.group("index")))
        else:
            steps.append(("filter", f"{match.group('field')}={match.group('wanted')}"))
        position = match.end()
    return steps
