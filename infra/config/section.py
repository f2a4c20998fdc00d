"""What every section of the stack file has in common, and what each of its keys says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from infra.config.api_paths import Counterpart
from infra.config.errors import model_in


class Section(BaseModel):
    """A mapping in the stack file: camelCase keys, unknown keys refused. Its fields are made by `setting`."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    def manifest(self) -> dict[str, Any]:
        """The section as Kubernetes spells it: camelCase keys, without those that are not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Outcome(StrEnum):
    """The most that a change replaces. Models and files on the volume are kept in every case."""

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
        about: one sentence on what the key is for, for docs/configuration.md.
        allowed: which values are, for errors and that page; a closed vocabulary, a bool or a section
            speaks for itself.
        changing: the usual outcome of a change on a stack that is up. A key that is a section has one only where
            its empty value says something else than its absence, as that of `job.egress`.
        note: what `changing` leaves out, in one sentence.
        on_kind: the outcome with kind, where it is another one.
        paths: what a key of a job is called in a PyTorchJob and in a TrainJob, for docs/trainer-v2.md.
        rules: what pydantic.Field takes. The first of `examples` is what an error suggests.
    """
    said = {"allowed": allowed} | _given(changing=changing, note=note, on_kind=on_kind, paths=paths)
    return Field(description=about, json_schema_extra=said, **rules)


def every_key(*, changing: Outcome, note: str = "", paths: Counterpart | None = None) -> ConfigDict:
    """The `model_config` of a section whose keys have these arguments of `setting`, unless they have their own."""
    return ConfigDict(json_schema_extra=_given(changing=changing, note=note, paths=paths))


def _given(**words: Any) -> dict[str, Any]:
    return {name: value for name, value in words.items() if value}


def keys(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel], FieldInfo]]:
    """Every key below `model`, in the order of the fields: its path, `job.training.epochs`, its section and its field.

    A key that is a section comes before its keys; `jobs` is listed without, since each of them is like `job`.
    """
    for field in model.model_fields.values():
        key = f"{path}.{field.alias}".lstrip(".")
        yield key, model, field
        inner = model_in(field.annotation)
        if inner and field.alias != "jobs":
            yield from keys(inner, key)


def said(top: type[BaseModel], word: str) -> dict[str, Any]:
    """The path of each key below `top` -> what it, or else `every_key` of its section, has as `word`.

    A key without it is left out. `every_key` counts for no key that is itself a section.

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
    """The error of a validator that knows better than the field's description what is allowed and how to fix it.

    A validator of a whole section names the `key` in it and that key's `value`.
    """
    context = {"allowed": allowed, "fix": fix, "key": key, "value": value}
    return PydanticCustomError("trainstack", "{allowed}", context)


def _whole(value: Any) -> Any:
    """YAML's `true` is an int in Python and `3.0` a whole float; neither is meant as a count."""
    if isinstance(value, bool | float | str):
        raise refusal("a whole number without quotes", "write the number itself, for example 1")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Count = Annotated[Whole, Field(ge=1)]
Natural = Annotated[Whole, Field(ge=0)]
