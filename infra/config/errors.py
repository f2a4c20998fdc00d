"""Turns pydantic's findings into lines that name file, key, value, what is allowed and the fix."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from infra.agreed import ProgramError

SHOWN = 60


class ConfigError(ProgramError):
    """The stack file is wrong. The text is complete: it needs no traceback around it."""


class Extending(str):
    """The path of a stack file that extends a base, for errors: it knows the file and line of each value.

    `places`: key, `trainstack:job.name` -> `stacks/base.yaml:7`. A key that stands in neither file has no place.
    """

    places: Mapping[str, str]


def explain(
    error: ValidationError, model: type[BaseModel], file: str, places: Mapping[str, str] | None = None
) -> ConfigError:
    """One paragraph for each key of `file` that `model` refused with `error`.

    Parameters:
        places: key -> the key that the file has instead, for values that are elsewhere in the file.
    """
    seen: dict[str, str] = {}
    for finding in error.errors():
        key, value, allowed, fix = _explained(finding, model)
        place = (places or {}).get(key, key)
        seen.setdefault(place, paragraph(file, place, value, allowed, fix))
    return ConfigError("\n".join(seen.values()))


def not_allowed(file: str, key: str, value: object, allowed: str, fix: str) -> ConfigError:
    """The error for one value; the parameters are those of `paragraph`."""
    return ConfigError(paragraph(file, key, value, allowed, fix))


def paragraph(file: str, key: str, value: object, allowed: str, fix: str) -> str:
    """The form of every configuration error.

    Parameters:
        file: the stack file.
        key: its full path, `trainstack:job.resources.gpu`.
        value: the value in the file; a text in parentheses, such as `(absent)`, is shown without quotes.
        allowed: the allowed values, in words.
        fix: what to write or do instead.
    """
    shown = value if isinstance(value, str) and value.startswith("(") else _short(value)
    place = file.places.get(key, file) if isinstance(file, Extending) else file
    return f"{place}: {key} = {shown}\n  allowed: {allowed}\n  fix: {fix}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _explained(finding: ErrorDetails, model: type[BaseModel]) -> tuple[str, object, str, str]:
    """Key, value, what is allowed and the fix."""
    owner, field, path = _locate(model, finding["loc"])
    key = key_of(path)
    context = finding.get("ctx", {})
    name = path[-1] if path else "job"
    kind = finding["type"]
    if kind == "extra_forbidden":
        return key, finding["input"], *_unknown(str(name), owner)
    if kind == "missing":
        return key, "(absent)", allowed(field), f"add `{name}: {example(field)}`"
    if kind == "trainstack":
        inner = context["key"]
        key = key_of([*path, *inner.split(".")]) if inner else key
        value = context["value"] if inner else finding["input"]
        return key, value, context["allowed"], context["fix"]
    fix = f"write for example `{name}: {example(field)}`"
    values = allowed(field)
    if kind == "enum" and isinstance(finding["input"], str):
        vocabulary = _vocabulary(field)
        values = ", ".join(vocabulary)
        near = difflib.get_close_matches(finding["input"], vocabulary, 1, 0.3)
        fix = f"write `{name}: {near[0] if near else vocabulary[0]}`"
    return key, finding["input"], values, fix


def _unknown(name: str, owner: type[BaseModel] | None) -> tuple[str, str]:
    known = sorted(field.alias or key for key, field in owner.model_fields.items()) if owner else []
    near = difflib.get_close_matches(name, known, 1)
    fix = (
        f"did you mean {near[0]}? Rename the key" if near else "remove the key, or use one of the known keys"
    )
    return "one of the known keys: " + ", ".join(known), fix


def key_of(path: Sequence[str | int]) -> str:
    """`trainstack:jobs[0].env.TOKEN`, as a key is named in errors."""
    text = "trainstack:"
    for place, part in enumerate(path):
        text += f"[{part}]" if isinstance(part, int) else ("." if place else "") + part
    return text


def takes_null(model: type[BaseModel], path: Sequence[str | int]) -> bool:
    """Whether the key at `path` below `model` takes null, and has another default."""
    field = _locate(model, path)[1]
    return field is not None and field.default is not None and type(None) in _members(field.annotation)


def _locate(
    model: type[BaseModel], loc: Sequence[str | int]
) -> tuple[type[BaseModel] | None, FieldInfo | None, list[str | int]]:
    """The model that holds the last key of `loc`, that key's field, and `loc` without pydantic's own tags."""
    owner: type[BaseModel] | None = model
    field: FieldInfo | None = None
    path: list[str | int] = []
    for part in loc:
        if isinstance(part, int):
            path.append(part)
            owner = model_in(field.annotation) if field else owner
            continue
        if field is not None:
            inner = model_in(field.annotation)
            if inner is None:
                # Below a plain mapping: its keys, and pydantic's tags, in brackets, for a key or a form of value.
                if tagged := _tagged(field.annotation).get(part):
                    owner, field = tagged, None
                elif is_mapping(field.annotation) and not part.startswith("["):
                    path.append(part)
                continue
            owner = inner
        assert owner is not None
        by_alias = {entry.alias or key: entry for key, entry in owner.model_fields.items()}
        field = by_alias.get(part)
        path.append(part)
    return owner, field, path


def _members(annotation: Any) -> list[Any]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, typing.Annotated, list, tuple):
        return [found for part in typing.get_args(annotation) for found in _members(part)]
    return [annotation]


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model of a key whose value is a section or a list of sections; None for other keys."""
    for member in _members(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            return member
    return None


def is_mapping(annotation: Any) -> bool:
    """Whether a key's value is a mapping whose keys the user chooses, as in `env`."""
    return any(typing.get_origin(member) is dict for member in _members(annotation))


def _tagged(annotation: Any) -> dict[str, type[BaseModel]]:
    """Pydantic's tag -> section, for each section that can be a value of a mapping."""
    found: dict[str, type[BaseModel]] = {}
    for mapping in (each for each in _members(annotation) if typing.get_origin(each) is dict):
        union = typing.get_args(typing.get_args(mapping)[1])
        for form in typing.get_args(union[0]) if union else ():
            model, *notes = typing.get_args(form) or (None,)
            if isinstance(model, type) and issubclass(model, BaseModel):
                found |= {note.tag: model for note in notes if isinstance(note, Tag)}
    return found


def _vocabulary(field: FieldInfo | None) -> list[str]:
    for member in _members(field.annotation) if field else []:
        if isinstance(member, type) and issubclass(member, Enum):
            return [str(entry.value) for entry in member]
    return []


def allowed(field: FieldInfo | None) -> str:
    """The values that a key takes, in words; for a closed vocabulary its members."""
    extra = field.json_schema_extra if field else None
    described = extra.get("allowed") if isinstance(extra, dict) else None
    return ", ".join(_vocabulary(field)) or str(described or _usual(field.annotation if field else None))


def _usual(annotation: Any) -> str:
    if bool in _members(annotation):
        return "true or false"
    return "a mapping" if model_in(annotation) else "a mapping of keys to values"


def example(field: FieldInfo | None) -> str:
    """The value that an error suggests, as text for a stack file."""
    if field is not None and field.examples:
        return str(field.examples[0])
    vocabulary = _vocabulary(field)
    return vocabulary[0] if vocabulary else "…"
