"""Which keys of a stack file differ from another revision's, and what changing each of them does."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from infra.config.changes import NOTES, OUTCOMES, outcome
from infra.config.cluster import ClusterKind
from infra.config.errors import model_in
from infra.config.job import JobConfig
from infra.config.load import Sections, jobs_of
from infra.config.pod_schema import DIRECTIVE, MERGE_KEYS
from infra.config.section import Outcome, Section
from infra.config.variables import Encrypted

_JOBS = re.compile(r"^jobs\[([^]]*)\]")
_PLACE = re.compile(r"\[[^]]*\]")
Keys = dict[str, Any]
"""A key's path, `job.egress[0].port` -> its value, defaults included; what is null is left out."""
POD = "job.pod"


@dataclass(frozen=True)
class KeyChange:
    """One key that has changed; `before` or `after` is None where the key is not set."""

    key: str
    before: Any
    after: Any
    outcome: Outcome
    note: str

    @property
    def job(self) -> str | None:
        """The job of a stack with several that the key belongs to; None for a key that all jobs have in common."""
        found = _JOBS.match(self.key)
        return found[1] if found else None


def key_changes(before: Sections, after: Sections) -> list[KeyChange]:
    """Every key whose value differs, in the order of the models."""
    single = bool(before.job and after.job) and bool(before.matrix) == bool(after.matrix)
    old, new = _keys(before, single), _keys(after, single)
    differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    # Of a job that comes or goes the one line about it is enough.
    whole = {f"{key}." for key in differing if _JOBS.fullmatch(key)}
    differing = [key for key in differing if not key.startswith(tuple(whole))]
    return [_change(key, old.get(key), new.get(key), before.cluster.kind) for key in differing]


def _change(key: str, before: Any, after: Any, kind: ClusterKind) -> KeyChange:
    rule = rule_of(key)
    is_first_name = rule in ("cluster.server", "cluster.id") and None in (before, after)
    usual = Outcome.NOTHING if is_first_name else outcome(rule, kind)
    return KeyChange(key, before, after, usual, NOTES.get(rule, ""))


def rule_of(key: str) -> str:
    """The key of infra.config.changes that tells what changing `key` does."""
    if _JOBS.fullmatch(key):
        return "jobs"
    plain = _PLACE.sub("", _JOBS.sub("job", key))
    if plain.startswith(f"{POD}."):
        return POD
    # Further resources have the rule of those with a field.
    return plain if plain in OUTCOMES or not plain.startswith("job.resources.") else "job.resources.cpu"


def _keys(sections: Sections, single: bool) -> Keys:
    found: Keys = {}
    for name in ("cluster", "operator", "storage", "image"):
        found |= dict(_below(name, getattr(sections, name)))
    if single and sections.job:
        found |= dict(_below("job", sections.job))
    else:
        for job in jobs_of(sections, ""):
            found |= _of_one_of_several(job)
    if sections.matrix:
        found |= dict(_below("matrix", sections.matrix))
    if sections.sweep:
        found |= dict(_below("sweep", sections.sweep))
    return found | ({"protected": True} if sections.protected else {})


def _of_one_of_several(job: JobConfig) -> Keys:
    """The job's keys. The first says that there is such a job: one that comes or goes is a change of `jobs`."""
    path = f"jobs[{job.name}]"
    return {path: "a job", **dict(_below(path, job))}


def _below(path: str, section: BaseModel) -> Iterator[tuple[str, Any]]:
    for name, field in type(section).model_fields.items():
        value, key = getattr(section, name), f"{path}.{field.alias}"
        # Where the default is None, an empty value says something else than none: `egress: []` forbids all.
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
    """The fields of a part of a pod template; entries of lists are named as Kubernetes tells them apart."""
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
    """The key's value as a stack file has it; of an encrypted one only whether it is another."""
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
