"""What all sections of the stack file have in common: their base class, and `setting`, which describes a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from infra.config.api_paths import Counterpart
from infra.config.errors import model_in


class Section(BaseModel):
    """A mapping in the stack file: camelCase keys, unknown keys refused. `setting` makes its fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    def manifest(self) -> dict[str, Any]:
        """The section as Kubernetes spells it: camelCase keys. A key that is not set is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Outcome(StrEnum):
    """What a change of a key usually replaces.

    Files on the volume stay. Only with `storage.kind: class` they can be lost, together with a kind cluster.
    """

    NOTHING = "nothing"
    IN_PLACE = "in place"
    JOB_REPLACED = "job replaced"
    VOLUME_REPLACED = "job, claim and volume replaced, files kept"
    CLUSTER_REPLACED = "cluster replaced, files kept"
    REFUSED = "refused before anything is touched"


def setting(
    *,
    about: str,
    allowed: str = "",
    changing: Outcome | None = None,
    note: str = "",
    on_kind: Outcome | None = None,
    paths: Counterpart | None = None,
    **rules: Any,
) -> Any:
    """A key of a section.

    Parameters:
        about: what the key is for, in at most three short sentences, for docs/configuration.md.
        allowed: the allowed values, for errors and that page. A closed vocabulary, a bool and a section need no
            such text.
        changing: the usual outcome of a change on a stack that is up. A key that is a section has an outcome only if
            an empty section means something else than a missing one, as for `job.egress`.
        note: the exceptions from `changing`, and further effects of the change, in at most three short sentences.
        on_kind: the outcome in a kind cluster, if it differs.
        paths: the names of a job's key in a PyTorchJob and in a TrainJob, for docs/trainer-v2.md.
        rules: arguments of pydantic.Field. An error suggests the first of `examples`.
    """
    said = {"allowed": allowed} | _given(changing=changing, note=note, on_kind=on_kind, paths=paths)
    return Field(description=about, json_schema_extra=said, **rules)


def every_key(*, changing: Outcome, note: str = "", paths: Counterpart | None = None) -> ConfigDict:
    """The `model_config` of a section: arguments of `setting` for each of its keys that has no such argument."""
    return ConfigDict(json_schema_extra=_given(changing=changing, note=note, paths=paths))


def _given(**words: Any) -> dict[str, Any]:
    return {name: value for name, value in words.items() if value}


def keys(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel], FieldInfo]]:
    """Every key below `model`, in the order of the fields: its path, `job.training.epochs`, its section and its field.

    A key that is a section comes before its keys. The keys below `jobs` are left out: they are the keys of `job`.
    """
    for field in model.model_fields.values():
        key = f"{path}.{field.alias}".lstrip(".")
        yield key, model, field
        inner = model_in(field.annotation)
        if inner and field.alias != "jobs":
            yield from keys(inner, key)


def said(top: type[BaseModel], word: str) -> dict[str, Any]:
    """The path of each key below `top` -> its argument `word` of `setting`, else of `every_key` of its section.

    A key without this argument is left out. `every_key` does not count for a key that is itself a section.

    Parameters:
        word: an argument of `setting`, for example `changing`.
    """
    found = {}
    for key, section, field in keys(top):
        own: Any = field.json_schema_extra
        of_all: Any = None if model_in(field.annotation) else section.model_config.get("json_schema_extra")
        found[key] = {**(of_all or {}), **own}.get(word)
    return {key: value for key, value in found.items() if value}


def refusal(allowed: str, fix: str, key: str = "", value: object = None) -> PydanticCustomError:
    """The error of a validator: what is allowed, and the fix, more precisely than the field's description.

    A validator of a whole section also gives the `key` in the section, and the `value` of this key.
    """
    context = {"allowed": allowed, "fix": fix, "key": key, "value": value}
    return PydanticCustomError("trainstack", "{allowed}", context)


def ensure_kind_has_keys(
    section: Section, kind: StrEnum, only_for: Callable[[str], Sequence[StrEnum]]
) -> None:
    """Raises a refusal for the first key in `section` that `kind` does not have.

    Parameters:
        kind: the value of the section's key `kind`.
        only_for: the kinds that have a key, by the key's name in the stack file; empty for a key of every kind.
    """
    for field in sorted(section.model_fields_set):
        key, value = str(type(section).model_fields[field].alias), getattr(section, field)
        kinds = only_for(key)
        if kinds and kind not in kinds:
            allowed = f"`{key}` only with {' or '.join(f'`kind: {each}`' for each in kinds)}"
            fix = f"remove {key}, or set `kind: {kinds[0]}`"
            raise refusal(allowed, fix, key, value.value if isinstance(value, StrEnum) else value)


def _whole(value: Any) -> Any:
    """Refuses `true`, which is an int in Python, and `3.0`: nobody means them as a count."""
    if isinstance(value, bool | float | str):
        raise refusal("a whole number without quotes", "write the number itself, for example 1")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Count = Annotated[Whole, Field(ge=1)]
Natural = Annotated[Whole, Field(ge=0)]
