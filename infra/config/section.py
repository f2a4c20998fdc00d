"""What every section of the stack file has in common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """A mapping in the stack file: camelCase keys, unknown keys refused. Its fields are made by `setting`."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    def manifest(self) -> dict[str, Any]:
        """The section as Kubernetes spells it: camelCase keys, without those that are not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def setting(*, about: str, allowed: str = "", **rules: Any) -> Any:
    """A key of a section.

    Parameters:
        about: one sentence on what the key is for, for docs/configuration.md.
        allowed: which values are, for errors and that page; a closed vocabulary speaks for itself.
        rules: what pydantic.Field takes. The first of `examples` is what an error suggests.
    """
    return Field(description=about, json_schema_extra={"allowed": allowed}, **rules)


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
