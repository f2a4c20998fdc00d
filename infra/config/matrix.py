"""Section `matrix`: one job for each combination of values; `job` is the template of these jobs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from infra.config.matrix_keys import PLAIN, ensure_plain
from infra.config.section import Count, Outcome, Section, refusal, setting

# A forgotten factor makes thousands of jobs at once. GitHub's limit is 256 jobs of a matrix, GitLab's 200.
MOST_JOBS = 1000


def _plain(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        raise refusal(PLAIN, f"name a key below this one; its value must be {PLAIN}")
    if not label(value):
        raise refusal(
            "a value with a letter or a digit: the job is named after it", "write the value differently"
        )
    return value


def _listed(values: Any) -> Any:
    if not isinstance(values, list | tuple):
        raise refusal(f"a list; an entry is {PLAIN}", "put the values in brackets: [1, 2]")
    return values


Value = Annotated[bool | int | float | str, BeforeValidator(_plain)]
Combination = dict[str, Value]
"""Key of a job -> its value."""


class MatrixConfig(Section):
    """One job for each combination of values, named after the values. `job` has the common keys."""

    options: dict[str, Annotated[tuple[Value, ...], BeforeValidator(_listed)]] = setting(
        about="Keys of `job`, without `job.`, each with a list of values.",
        allowed=f"a mapping of a job's keys to lists; an entry of a list is {PLAIN}",
        examples=["{training.lr: [0.01, 0.1]}"],
        changing=Outcome.IN_PLACE,
        note="Jobs whose values stay do not change. Adding or removing a key renames all jobs, so all are replaced.",
    )
    exclude: tuple[Combination, ...] = setting(
        about=(
            "Combinations to leave out. Each entry lists some values and leaves out every combination with all "
            "of these values."
        ),
        default=(),
        allowed="a list of mappings: a key of options to one of its values",
        examples=["[{training.lr: 0.1, training.seed: 2}]"],
        changing=Outcome.IN_PLACE,
        note="Excluded jobs are removed; their finished runs stay on the volume.",
    )
    max_parallel: Count | None = setting(
        about="How many of the jobs run at once; default: as many as Pulumi and the cluster allow.",
        default=None,
        allowed="a whole number of at least 1",
        examples=[8],
        changing=Outcome.NOTHING,
        note="Jobs that have started are not stopped.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> MatrixConfig:
        if not self.options:
            raise refusal("at least one key", "write `options: {training.lr: [0.01, 0.1]}`", "options", {})
        for key, values in self.options.items():
            ensure_plain(key)
            _ensure_values_differ(key, values)
        for place, entry in enumerate(self.exclude):
            self._ensure_excludes(f"exclude[{place}]", entry)
        number = math.prod(len(values) for values in self.options.values())
        if number > MOST_JOBS:
            fix = "use fewer values, or several stacks"
            raise refusal(
                f"at most {MOST_JOBS} combinations",
                fix,
                "options",
                f"({number} combinations, without exclude)",
            )
        if not any(True for _ in self.combinations()):
            raise refusal("at least one combination that stays", "remove an entry", "exclude", self.exclude)
        return self

    def _ensure_excludes(self, where: str, entry: Combination) -> None:
        if not entry:
            raise refusal("at least one key of options", "remove the entry", where, entry)
        for key, value in entry.items():
            values = self.options.get(key)
            if values is None:
                fix = f"take one of: {', '.join(sorted(self.options))}"
                raise refusal("keys of options", fix, f"{where}.{key}", value)
            if label(value) not in map(label, values):
                fix = f"take one of: {', '.join(map(str, values))}"
                raise refusal("one of the values in `options`", fix, f"{where}.{key}", value)

    def combinations(self) -> Iterator[Combination]:
        """The values of each job, ordered by the keys' names: Pulumi hands over mappings sorted."""
        keys = sorted(self.options)
        excluded = [{key: label(value) for key, value in entry.items()} for entry in self.exclude]
        for values in itertools.product(*(self.options[key] for key in keys)):
            found = {key: label(value) for key, value in zip(keys, values, strict=True)}
            if not any(entry.items() <= found.items() for entry in excluded):
                yield dict(zip(keys, values, strict=True))

    def place(self, key: str, value: Value) -> str:
        """`options.training.lr[1]`: where the stack file has `value`."""
        return f"options.{key}[{[*map(label, self.options[key])].index(label(value))}]"


def label(value: bool | int | float | str) -> str:
    """`value` as a part of a job's name: lower-case letters, digits and -; empty if it has no letter and no digit.

    Every notation of a number gives the same part: YAML 1.1 reads 1e-5 as a text, Pulumi reads it as a number.
    """
    text = str(value).lower() if isinstance(value, bool) else _number(value) or str(value).lower()
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")


def _number(value: int | float | str) -> str:
    try:
        number = value if isinstance(value, int) else float(value)
    except ValueError:
        return ""
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e15:
        number = int(number)
    return f"minus{abs(number)}" if number < 0 else str(number)


def _ensure_values_differ(key: str, values: tuple[Value, ...]) -> None:
    if not values:
        raise refusal("at least one value", "add a value, or remove the key", f"options.{key}", [])
    seen: dict[str, Value] = {}
    for place, value in enumerate(values):
        if (known := label(value)) in seen:
            allowed = f"values that differ in the jobs' names; {seen[known]!r} also becomes {known} in a name"
            raise refusal(allowed, "remove one of the two", f"options.{key}[{place}]", value)
        seen[known] = value
