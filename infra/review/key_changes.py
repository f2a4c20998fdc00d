"""The keys of a stack file that differ from another revision or from the last update, and each change's effect."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from infra.cluster_kinds import ClusterKind
from infra.config.changes import NOTES, OUTCOMES, outcome
from infra.config.errors import model_in
from infra.config.load import EXTENDS, Sections, jobs_of, own, read, sections, source, validated, with_base
from infra.config.pod_schema import DIRECTIVE, MERGE_KEYS
from infra.config.section import Outcome, Section
from infra.config.variables import Encrypted

_JOBS = re.compile(r"^jobs\[([^]]*)\]")
_PLACE = re.compile(r"\[[^]]*\]")
Keys = dict[str, Any]
"""A key's path, `job.egress[0].port` -> its value, defaults included; keys with null are left out."""
POD = "job.pod"
UNSET, MOST_LETTERS = "not set", 60


@dataclass(frozen=True)
class KeyChange:
    """One changed key; `before` or `after` is None if the key is not set."""

    key: str
    before: Any
    after: Any
    outcome: Outcome
    note: str

    @property
    def job(self) -> str | None:
        """The job that has this key, in a stack with several jobs; None in all other cases."""
        found = _JOBS.match(self.key)
        return found[1] if found else None


def key_changes(before: Sections, after: Sections) -> list[KeyChange]:
    """Every key whose value differs, in the order of the models."""
    single = bool(before.job and after.job) and bool(before.matrix) == bool(after.matrix)
    old, new = _keys(before, single), _keys(after, single)
    differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    # For a new or removed job, one line is enough.
    whole = {f"{key}." for key in differing if _JOBS.fullmatch(key)}
    differing = [key for key in differing if not key.startswith(tuple(whole))]
    return [_change(key, old.get(key), new.get(key), before.cluster.kind) for key in differing]


def _change(key: str, before: Any, after: Any, kind: ClusterKind) -> KeyChange:
    rule = rule_of(key)
    is_first_name = rule in ("cluster.server", "cluster.id") and None in (before, after)
    usual = Outcome.NOTHING if is_first_name else outcome(rule, kind)
    return KeyChange(key, before, after, usual, NOTES.get(rule, ""))


def rule_of(key: str) -> str:
    """The key in infra.config.changes whose rule counts for `key`."""
    if _JOBS.fullmatch(key):
        return "jobs"
    plain = _PLACE.sub("", _JOBS.sub("job", key))
    if plain.startswith(f"{POD}."):
        return POD
    # Other resources have the rule of cpu.
    return plain if plain in OUTCOMES or not plain.startswith("job.resources.") else "job.resources.cpu"


def _keys(sections: Sections, single: bool) -> Keys:
    found: Keys = {}
    for name in ("cluster", "operator", "storage", "image"):
        found |= dict(_below(name, getattr(sections, name)))
    if single and sections.job:
        found |= dict(_below("job", sections.job))
    else:
        for job in jobs_of(sections, ""):
            path = f"jobs[{job.name}]"
            # Says that the job exists: a new or removed job is a change of `jobs`.
            found |= {path: "a job", **dict(_below(path, job))}
    if sections.matrix:
        found |= dict(_below("matrix", sections.matrix))
    if sections.sweep:
        found |= dict(_below("sweep", sections.sweep))
    return found | ({"protected": True} if sections.protected else {})


def _below(path: str, section: BaseModel) -> Iterator[tuple[str, Any]]:
    for name, field in type(section).model_fields.items():
        value, key = getattr(section, name), f"{path}.{field.alias}"
        # If the default is None, an empty value means something else: `egress: []` forbids all addresses.
        if value is None or (value == () and field.default == ()):
            continue
        if name == "pod":
            yield from _fields(key, value)
        elif model_in(field.annotation) is None:
            yield key, _plain(section, name)
        else:
            empty: Any = {} if isinstance(value, BaseModel) else []
            yield from list(_inside(key, value)) or ([(key, empty)] if field.default is None else [])
    for name, value in (section.__pydantic_extra__ or {}).items():
        yield f"{path}.{name}", value


def _inside(key: str, value: BaseModel | tuple[BaseModel, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        yield from _below(key, value)
        return
    for place, each in enumerate(value):
        yield from _below(f"{key}[{place}]", each)


def _fields(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a part of a pod template; list entries are named by the key that Kubernetes uses."""
    merge_key = MERGE_KEYS.get(key.rpartition(".")[2], "")
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _fields(f"{key}.{name}", each)
    elif isinstance(value, list) and merge_key:
        for each in value:
            rest = {name: inner for name, inner in each.items() if name != merge_key}
            yield from _fields(f"{key}[{each.get(merge_key, DIRECTIVE)}]", rest or "(there)")
    else:
        yield key, "(removed)" if value is None else value


def _plain(section: BaseModel, name: str) -> Any:
    """The key's value in the form of a stack file; for an encrypted value only whether it changed."""
    value = getattr(section, name)
    if isinstance(value, dict):
        return {key: _of_variable(each) for key, each in value.items()}
    (plain,) = section.model_dump(mode="json", include={name}).values()
    return plain


def _of_variable(value: Any) -> Any:
    if isinstance(value, Encrypted):
        cipher_text = value.secure.get_secret_value()
        return f"encrypted {hashlib.sha256(cipher_text.encode()).hexdigest()[:8]}"
    return value.manifest() if isinstance(value, Section) else value


def config_diff(file: Path, applied: Mapping[str, Any]) -> list[str]:
    """A line for each key whose value in the stack file differs from `applied`; defaults are values, too.

    Pulumi's history has only the stack file's own keys. The base's values at that time are unknown, so its present
    values are used: a change of the base itself gives no line.

    Raises ConfigError if one of the two configurations is invalid.

    Parameters:
        applied: the configuration of an update, from Pulumi's history of the stack.
    """
    had, has = sections(applied), own(file)
    after = validated(read(file), source(file, os.path.relpath(file)))
    old, new = had.get(EXTENDS), has.get(EXTENDS)
    moved = [f"{EXTENDS}: {_shown(old)} -> {_shown(new)} (another base)"] if old != new else []
    if old and new:
        had[EXTENDS] = new
    elif old and not file.with_name(f"{old}.yaml").exists():
        return moved
    before = validated(with_base(had, file), "the configuration that was applied")
    return [*moved, *(_line(each) for each in key_changes(before, after))]


def _line(change: KeyChange) -> str:
    return f"{change.key}: {_shown(change.before)} -> {_shown(change.after)} ({change.outcome})"


def _shown(value: Any) -> str:
    text = UNSET if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"
