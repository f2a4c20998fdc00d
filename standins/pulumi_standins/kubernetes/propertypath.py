"""Pulumi's property paths, as in `ignoreChanges`: `spec.containers[*].image`, `metadata.labels["a.b/c"]`."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TOKEN = re.compile(r"""\.?(?:\["((?:[^"\\]|\\.)*)"\]|\[(\d+|\*)\]|([^.\[\]"]+))""")


def parse(text: str) -> list[str | int]:
    """The steps of a path; `*` stays unchanged. Raises ValueError for an invalid path."""
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.end() == position:
            raise ValueError(f"no property path: {text!r}")
        quoted, index, name = match.groups()
        if quoted is not None:
            steps.append(re.sub(r"\\(.)", r"\1", quoted))
        elif index is not None:
            steps.append(index if index == "*" else int(index))
        else:
            steps.append(name)
        position = match.end()
    return steps


def covers(pattern: Sequence[str | int], path: Sequence[str | int]) -> bool:
    """Whether the path is at or below the pattern."""
    return len(pattern) <= len(path) and all(
        wanted == step or wanted == "*" for wanted, step in zip(pattern, path, strict=False)
    )
