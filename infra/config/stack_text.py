"""Sets keys in the text of a stack file. Comments, layout and every other line stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from infra.config.errors import ConfigError

Path = tuple[str | int, ...]
"""From the document's top to a key: names, and places in lists."""


def literals(text: str, path: Path) -> dict[str, str]:
    """The keys of the mapping at `path` with their scalar values as they are written; empty where there is none.

    Left out are keys that come from elsewhere, by `<<` for example, and values that mean nothing, or something else, in
    another place: one with an anchor, with a tag, or of several lines.
    """
    node = _node(text, path)
    entries = node.value if isinstance(node, yaml.MappingNode) else []
    found = {key.value: _written(text, value) for key, value in entries if isinstance(value, yaml.ScalarNode)}
    return {key: value for key, value in found.items() if _stands_alone(value)}


def _stands_alone(text: str) -> bool:
    tokens = list(yaml.scan(text))
    return len(text.splitlines()) == 1 and [type(each) for each in tokens[1:-1]] == [yaml.ScalarToken]


def _written(text: str, node: yaml.Node) -> str:
    return text[node.start_mark.index : node.end_mark.index]


def with_values(text: str, path: Path, values: Mapping[str, str], file: str) -> str:
    """`text` with `values`, key to scalar as it is written, in the mapping at `path`, which may be missing itself.

    Raises ConfigError where the file is laid out in a way that this cannot change without touching more.

    Parameters:
        file: the text's name, for the error.
    """
    changed = text
    new = {key: yaml.safe_load(value) for key, value in values.items()}
    try:
        for key, value in values.items():
            changed = _with_value(changed, path, key, value)
        is_right = yaml.safe_load(changed) == _with(yaml.safe_load(text), path, new)
    except (yaml.YAMLError, TypeError):
        is_right = False
    if not is_right:
        lines = ", ".join(f"{key}: {value}" for key, value in values.items())
        where = ".".join(map(str, path))
        raise ConfigError(
            f"{file}: its layout does not let these keys be set\n  fix: write below {where}: {lines}"
        )
    return changed


def _with(document: Any, path: Path, values: Mapping[str, Any]) -> Any:
    """`document` with `values`, as data. Raises TypeError where something else than mappings is on the path."""
    if not path:
        return {**(document or {}), **values}
    step, *others = path
    if isinstance(document, list) and isinstance(step, int):
        return [*document[:step], _with(document[step], tuple(others), values), *document[step + 1 :]]
    if not isinstance(document, dict):
        raise TypeError(f"{step} is below no mapping")
    return {**document, step: _with(document.get(step), tuple(others), values)}


def _with_value(text: str, path: Path, key: str, value: str) -> str:
    mapping = _node(text, path)
    if mapping is not None and not isinstance(mapping, yaml.MappingNode):
        return text
    if mapping is None:
        outer, name = _node(text, path[:-1]), path[-1]
        return _inserted(text, outer, str(name), {key: value})
    for name_node, node in mapping.value:
        if name_node.value == key:
            return text[: node.start_mark.index] + value + text[node.end_mark.index :]
    return _inserted(text, mapping, key, value)


def _inserted(text: str, mapping: yaml.Node | None, key: str, value: str | Mapping[str, str]) -> str:
    """`text` with a key behind the last one of `mapping` that has a scalar; as it was where there is none."""
    if not isinstance(mapping, yaml.MappingNode):
        return text
    scalars = [(name, node) for name, node in mapping.value if isinstance(node, yaml.ScalarNode)]
    if not scalars:
        return text
    name, node = scalars[-1]
    if mapping.flow_style:
        end = node.end_mark.index
        return f"{text[:end]}, {key}: {_in_flow(value)}{text[end:]}"
    line_end = text.find("\n", node.end_mark.index)
    end = len(text) if line_end < 0 else line_end
    indent = " " * name.start_mark.column
    return f"{text[:end]}\n" + "\n".join(_in_block(key, value, indent)) + text[end:]


def _in_flow(value: str | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return value
    return "{" + ", ".join(f"{key}: {each}" for key, each in value.items()) + "}"


def _in_block(key: str, value: str | Mapping[str, str], indent: str) -> Iterator[str]:
    if isinstance(value, str):
        yield f"{indent}{key}: {value}"
        return
    yield f"{indent}{key}:"
    yield from (f"{indent}  {name}: {each}" for name, each in value.items())


def _node(text: str, path: Path) -> yaml.Node | None:
    node = yaml.compose(text, yaml.SafeLoader)
    for step in path:
        node = _below(node, step)
    return node


def _below(node: yaml.Node | None, step: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        return node.value[step] if step < len(node.value) else None
    return None
