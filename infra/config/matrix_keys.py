"""Which keys of a job may differ between the jobs of a matrix."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from infra.config.errors import is_mapping, model_in
from infra.config.job import JobConfig
from infra.config.section import refusal

OWN = {"name": "jobs are named after job.name and their values", "runId": "a finished run belongs to one job"}
"""Keys that a matrix cannot vary -> the reason."""
PLAIN = "a number, a text, true or false"


def ensure_plain(key: str) -> None:
    """Raises a refusal for a `key` (without `job.`) that is unknown, takes no plain value, or is in OWN."""
    where = f"options.{key}"
    if key in OWN:
        fix = f"remove it; {OWN[key]}"
        raise refusal("keys of job except " + " and ".join(OWN), fix, where, "(present)")
    path = segments(key)
    known, fix = _fields(JobConfig), "name a key below this one"
    for place, part in enumerate(path):
        if part not in known:
            raise refusal(*_unknown(path, place, known), where, "(unknown)")
        annotation, is_last = known[part].annotation, place + 1 == len(path)
        if _is_list(annotation):
            fix = "remove it; write jobs that differ in a list into jobs, one by one"
            break
        owner = model_in(annotation)
        if is_mapping(annotation) != is_last and owner is None:
            return
        known = _fields(owner) if owner else {}
    raise refusal(f"keys whose values are {PLAIN}", fix, where, "(a list or a mapping)")


def _unknown(path: list[str], place: int, known: Mapping[str, FieldInfo]) -> tuple[str, str]:
    """What is allowed instead of the segment at `place`, and the fix."""
    near = difflib.get_close_matches(path[place], known, 1, 0.5)
    right = ".".join([*path[:place], *near, *path[place + 1 :]])
    fix = f"did you mean {right}? Rename the key" if near else "remove the key"
    where = ".".join(["job", *path[:place]])
    return (f"the keys of {where}: {', '.join(sorted(known))}" if known else f"{where} itself"), fix


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _is_list(annotation: Any) -> bool:
    return tuple in (typing.get_origin(each) for each in (annotation, *typing.get_args(annotation)))


def segments(key: str) -> list[str]:
    """The single keys in `key`; the last key of `labels.example.com/team` is `example.com/team`."""
    first, _, rest = key.partition(".")
    field = _fields(JobConfig).get(first)
    if rest and field is not None and is_mapping(field.annotation):
        return [first, rest]
    return key.split(".")
