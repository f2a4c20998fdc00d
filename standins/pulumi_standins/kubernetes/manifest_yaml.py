"""YAML as Kubernetes' own clients read it: what plain scalars and keys mean, by go.yaml.in/yaml/v2 resolve.go.

PyYAML reads YAML 1.1 to the letter: `12:30` is the number 750 there, `=` an error, `0o644` and `1e3` texts.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_TAG = "tag:yaml.org,2002:"
# In this order: what is no integer may be a fraction, such as 08.
_SCALARS = [
    (
        "bool",
        re.compile(r"y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON|n|N|no|No|NO|false|False|FALSE|off|Off|OFF"),
    ),
    ("int", re.compile(r"[-+]?(0[bB]_*[01][01_]*|0[oO]_*[0-7][0-7_]*|0[xX]_*[\da-fA-F][\da-fA-F_]*)")),
    ("int", re.compile(r"[-+]?(0[0-7_]*|[1-9][\d_]*)")),
    ("float", re.compile(r"[-+]?(\.\d+|\d[\d_]*(\.[\d_]*)?)([eE][-+]?\d+)?")),
    ("float", re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")),
]
_BOOLEANS = {
    **dict.fromkeys(("y", "yes", "true", "on"), True),
    **dict.fromkeys(("n", "no", "false", "off"), False),
}
_FIRST = "yYnNtTfFoO.+-0123456789"
_REPLACED = {_TAG + name for name in ("bool", "int", "float", "timestamp", "value")}
# A quotation of more than a character of the syntax.
_QUOTATION = re.compile(r"(['\"]).{2,}\1")


def loader(base: Any) -> Any:
    """A safe loader of PyYAML's with Kubernetes' scalars."""
    resolvers = {
        first: [(tag, expression) for tag, expression in found if tag not in _REPLACED]
        for first, found in base.yaml_implicit_resolvers.items()
    }
    made: Any = type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})
    for name, expression in _SCALARS:
        made.add_implicit_resolver(
            _TAG + name, re.compile(rf"(?:{expression.pattern})\Z", re.ASCII), [*_FIRST]
        )
    made.add_constructor(_TAG + "bool", _boolean)
    made.add_constructor(_TAG + "int", _integer)
    return made


def _boolean(reader: Any, node: Any) -> bool:
    return _BOOLEANS[str(reader.construct_scalar(node)).lower()]


def _integer(reader: Any, node: Any) -> int:
    text = str(reader.construct_scalar(node)).replace("_", "")
    digits = text.lstrip("+-")
    is_octal = digits.startswith("0") and digits.isdigit()
    number = int(digits, 8 if is_octal else 0)
    return -number if text.startswith("-") else number


_Loader = loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def documents(text: str) -> list[Any]:
    """The documents of a text; keys of maps are texts.

    Raises:
        ValueError: it is no YAML; without what it says, which may be secret.
    """
    try:
        return [_named(document) for document in yaml.load_all(text, Loader=_Loader)]
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:
        raise ValueError(f"a manifest is no valid YAML{_finding(error)}") from None


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _named(item) for key, item in value.items()}
    return [_named(item) for item in value] if isinstance(value, list) else value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, str | int):
        return str(key)
    if isinstance(key, float):
        return f"{key:g}"
    raise yaml.MarkedYAMLError(problem=f"a key is a {type(key).__name__}")


def _finding(error: Exception) -> str:
    """What is wrong, and where, without quotations."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    what = f": {_QUOTATION.sub('this', problem)}" if problem else ""
    return what + (f" (line {mark.line + 1}, column {mark.column + 1})" if mark else "")
