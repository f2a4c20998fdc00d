"""The text of a stack file: reads it as Pulumi does, and sets keys in it.

Setting a key keeps comments, layout and every other line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import yaml
from yaml.constructor import ConstructorError

from infra.config.errors import ConfigError

Path = tuple[str | int, ...]
"""From the document's top to a key: names, and places in lists."""

MOST, LEAST = 2**63 - 1, -(2**63)
"""Integers in this range reach the program unchanged; Pulumi (3.246) rounds all others."""
WHOLE = 1e21
"""Go's JSON writes whole numbers below this without an exponent."""

_BREAK = re.compile(r"\r?\n")
_CORE = "tag:yaml.org,2002:"
_ODD = "!odd"
_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(0|[1-9][0-9]*)",
    "float": r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?",
    "merge": r"<<",
}
"""How Pulumi's reader, gopkg.in/yaml.v3, recognizes plain scalars. All others are text, also `yes` and `1:30`."""

_ODD_NUMBER = (
    r"[-+]?0[0-9_]+(\.[0-9_]*)?([eE][-+]?[0-9]+)?|[-+]?0(b[01_]+|o[0-7_]+|x[0-9a-fA-F_]+)"
    r"|[-+]?[0-9]+_[0-9_]*(\.[0-9_]*)?|[-+]?[0-9]+\.[0-9]*_[0-9_]*|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"
)
"""Numbers and dates that Pulumi changes, or that readers of YAML 1.1 and 1.2 read differently."""


class _Loader(yaml.SafeLoader):
    """Reads YAML as Pulumi does, and refuses a value that the program would get from Pulumi in another form."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as the base class declares it
    yaml_constructors: ClassVar[dict[Any, Any]] = {
        f"{_CORE}{name}": yaml.SafeLoader.yaml_constructors[f"{_CORE}{name}"]
        for name in ("null", "bool", "str", "seq")
    } | {None: yaml.SafeLoader.construct_undefined}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Raises ConstructorError for a key that is there twice, or that is not text."""
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag not in (f"{_CORE}str", f"{_CORE}merge"):
                raise _refused("a key that is text: write it in quotes", key)
            if key.value in seen:
                raise _refused("each key once in a mapping", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep=True)


def _map(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    return loader.construct_mapping(node)


def _int(_: _Loader, node: yaml.Node) -> int:
    found = int(_number(node))
    if not LEAST <= found <= MOST:
        raise _refused(f"an integer from {LEAST} to {MOST}", node)
    return found


def _float(_: _Loader, node: yaml.Node) -> float:
    """The number in Pulumi's JSON: `1.0` and `1e3` are integers there."""
    found = float(_number(node))
    if not math.isfinite(found):
        raise _refused("a number that fits into 64 bits", node)
    return int(found) if found.is_integer() and abs(found) < WHOLE else found


def _number(node: yaml.Node) -> str:
    if not re.fullmatch(_SCALARS["float"], node.value):
        raise _refused("a number in decimal digits", node)
    return str(node.value)


def _odd(_: _Loader, node: yaml.Node) -> None:
    raise _refused("a number in decimal digits without leading zeros, or text in quotes", node)


def _refused(allowed: str, node: yaml.Node) -> ConstructorError:
    return ConstructorError(None, None, f"found {node.value}\n  allowed: {allowed}", node.start_mark)


for _name, _pattern in {**_SCALARS, _ODD: _ODD_NUMBER}.items():
    _Loader.add_implicit_resolver(
        _name if _name == _ODD else _CORE + _name, re.compile(f"^(?:{_pattern})$"), None
    )
for _name, _made in {"map": _map, "int": _int, "float": _float}.items():
    _Loader.add_constructor(_CORE + _name, _made)
_Loader.add_constructor(_ODD, _odd)


def load(text: str) -> Any:
    """The one document in `text`, in the types of JSON.

    Raises yaml.YAMLError, also for what Pulumi reads differently.
    """
    return yaml.load(text, _Loader)


def lines(text: str, path: Path) -> dict[Path, int]:
    """The line number, from 1, of each key and each list item below `path`, by its path relative to `path`.

    A value from `<<` or an alias has the line where it is written.
    """
    loader = _Loader(text)
    top = _at(loader.get_single_node(), path)
    return dict(_lines(loader, top, ())) if top else {}


def _lines(loader: _Loader, node: yaml.Node, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(node, yaml.MappingNode):
        loader.flatten_mapping(node)
    entries = enumerate(node.value) if isinstance(node, yaml.SequenceNode) else node.value
    for name, each in entries if isinstance(node, yaml.CollectionNode) else ():
        step, mark = (name, each.start_mark) if isinstance(name, int) else (name.value, name.start_mark)
        yield (*path, step), mark.line + 1
        yield from _lines(loader, each, (*path, step))


def literals(text: str, path: Path) -> dict[str, str]:
    """The keys of the mapping at `path`, with the text of their scalar values; empty if there is no mapping.

    Left out are keys from elsewhere, for example from `<<`, and values whose text can have another meaning in another
    place: a value with an anchor, with a tag, or of several lines.
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
    """`text` with `values` (key -> text of a scalar) in the mapping at `path`; a missing mapping is added.

    Raises ConfigError if the file's layout does not allow this without changes of other lines.

    Parameters:
        file: the text's name, for the error.
    """
    changed = text
    new = {key: load(value) for key, value in values.items()}
    try:
        for key, value in values.items():
            changed = _with_value(changed, path, key, value)
        is_right = load(changed) == _with(load(text), path, new)
    except (yaml.YAMLError, TypeError):
        is_right = False
    if not is_right:
        lines = ", ".join(f"{key}: {value}" for key, value in values.items())
        where = ".".join(map(str, path))
        raise ConfigError(
            f"{file}: the file's layout does not allow the program to write these keys\n"
            f"  fix: write them yourself below {where}: {lines}"
        )
    return changed


def _with(document: Any, path: Path, values: Mapping[str, Any]) -> Any:
    """`document` with `values`, as data. Raises TypeError if the path leads through something else than mappings."""
    if not path:
        return {**(document or {}), **values}
    step, *others = path
    if isinstance(document, list) and isinstance(step, int):
        return [*document[:step], _with(document[step], tuple(others), values), *document[step + 1 :]]
    if not isinstance(document, dict):
        raise TypeError(f"{step} is below no mapping")
    return {**document, step: _with(document.get(step, {}), tuple(others), values)}


_Value = str | Mapping[str, "_Value"]


def _with_value(text: str, path: Path, key: str, value: _Value) -> str:
    mapping = _node(text, path)
    if mapping is not None and not isinstance(mapping, yaml.MappingNode):
        return text
    if mapping is None:
        return _with_value(text, path[:-1], str(path[-1]), {key: value}) if path else text
    if isinstance(value, str) and (node := _below(mapping, key)):
        return f"{text[: node.start_mark.index]}{value}{text[node.end_mark.index :]}"
    return _inserted(text, mapping, key, value)


def _inserted(text: str, mapping: yaml.MappingNode, key: str, value: _Value) -> str:
    """`text` with a new key after the last key of `mapping` that has a scalar; before all keys if none has one.

    An empty mapping stays unchanged.
    """
    scalars = [(name, node) for name, node in mapping.value if isinstance(node, yaml.ScalarNode)]
    if not mapping.value:
        return text
    name, node = (scalars or mapping.value)[-1 if scalars else 0]
    first, end, indent = name.start_mark.index, node.end_mark.index, " " * name.start_mark.column
    if mapping.flow_style:
        entry = f"{key}: {_in_flow(value)}"
        return f"{text[:end]}, {entry}{text[end:]}" if scalars else f"{text[:first]}{entry}, {text[first:]}"
    line_end = _BREAK.search(text, end)
    ending = (line_end or _BREAK.search(text) or ["\n"])[0]
    lines = ending.join(_in_block(key, value, indent))
    if not scalars:
        return f"{text[:first]}{lines.removeprefix(indent)}{ending}{indent}{text[first:]}"
    end = line_end.start() if line_end else len(text)
    return text[:end] + ending + lines + text[end:]


def _in_flow(value: _Value) -> str:
    if isinstance(value, str):
        return value
    return "{" + ", ".join(f"{key}: {_in_flow(each)}" for key, each in value.items()) + "}"


def _in_block(key: str, value: _Value, indent: str) -> Iterator[str]:
    if isinstance(value, str):
        yield f"{indent}{key}: {value}"
        return
    yield f"{indent}{key}:"
    for name, each in value.items():
        yield from _in_block(name, each, f"{indent}  ")


def _node(text: str, path: Path) -> yaml.Node | None:
    return _at(yaml.compose(text, _Loader), path)


def _at(node: yaml.Node | None, path: Path) -> yaml.Node | None:
    for step in path:
        node = _below(node, step)
    return node


def _below(node: yaml.Node | None, step: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        return node.value[step] if step < len(node.value) else None
    return None
