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

# A job's own: its name is made from its values, and a finished run is of one job.
OWN = ("name", "runId")
PLAIN = "a number, a text, true or false"


def ensure_plain(key: str) -> None:
    """Raises a refusal unless `key`, without `job.`, is a key of a job that takes a plain value and may differ."""
    where = f"options.{key}"
    if key in OWN:
        fix = "remove it; jobs are named after job.name and their values"
        raise refusal("keys of job but " + " and ".join(OWN), fix, where, "(present)")
    path = segments(key)
    known, fix = _fields(JobConfig), "name a key further inside"
    for place, part in enumerate(path):
        if part not in known:
            raise refusal(*_unknown(path, place, known), where, "(unknown)")
        annotation, is_last = known[part].annotation, place + 1 == len(path)
        if _is_list(annotation):
            fix = "remove it; jobs that differ in a list stand in jobs, one by one"
            break
        owner = model_in(annotation)
        if is_mapping(annotation) != is_last and owner is None:
            return
        known = _fields(owner) if owner else {}
    raise refusal(f"keys whose values are {PLAIN}", fix, where, "(a list or a mapping)")


def _unknown(path: list[str], place: int, known: Mapping[str, FieldInfo]) -> tuple[str, str]:
    """What is allowed in place of the segment at `place`, and the fix."""
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
    """The keys on the way to `key`; the last of `labels.example.com/team` is `example.com/team`."""
    first, _, rest = key.partition(".")
    field = _fields(JobConfig).get(first)
    if rest and field is not None and is_mapping(field.annotation):
        return [first, rest]
    return key.split(".")
