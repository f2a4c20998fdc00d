"""The options of a search: which keys of `training` are varied, and between which values."""

from __future__ import annotations

import difflib
import math
import typing
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from infra.config.errors import allowed, example
from infra.config.section import refusal
from infra.config.training import TrainingConfig

BELOW = "training."
# They decide about data and back end: accuracies on different data cannot be compared.
LEFT_OUT = ("dataset", "digitsEpochs", "backend")
_FIELDS = {str(field.alias): field for field in TrainingConfig.model_fields.values()}
KEYS = tuple(f"{BELOW}{alias}" for alias in _FIELDS if alias not in LEFT_OUT)
"""The keys of a job that a search may vary."""
FORMS = "a list of numbers, or {min: …, max: …}, with `log: true` for a logarithmic scale"


@dataclass(frozen=True)
class Range:
    """All numbers from `low` to `high`.

    Parameters:
        low, high: the least and the greatest number.
        log: whether the scale is logarithmic: equal factors are then equally likely.
        whole: whether only whole numbers count.
    """

    low: float
    high: float
    log: bool
    whole: bool

    @property
    def values(self) -> tuple[float, float]:
        """The two ends, `low` and `high`."""
        return self.low, self.high


@dataclass(frozen=True)
class Choice:
    """Some values, without an order."""

    values: tuple[float, ...]


def option(key: str, given: Any) -> Range | Choice:
    """The values to try for `key`. Raises a refusal that names the place and the fix."""
    where = f"options.{key}"
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, 1, 0.5)
        fix = f"did you mean {near[0]}? Rename the key" if near else "remove the key"
        if key.removeprefix(BELOW) in LEFT_OUT:
            fix = "keep it in job.training: trials that differ in it cannot be compared"
        raise refusal(f"keys of job.training: {', '.join(KEYS)}", fix, where, "(unknown)")
    if isinstance(given, list | tuple):
        return _choice(key, given, where)
    if isinstance(given, dict):
        return _range(key, given, where)
    raise refusal(FORMS, f"write for example `{key}: {two_examples(key)}`", where, given)


def _choice(key: str, given: Any, where: str) -> Choice:
    if len(given) < 2:
        raise refusal("at least two values", "add a value, or set the key in job.training", where, given)
    values = [_number(key, each, f"{where}[{place}]") for place, each in enumerate(given)]
    for place, value in enumerate(values):
        if value in values[:place]:
            raise refusal("values that differ", "remove one of the two", f"{where}[{place}]", value)
    return Choice(tuple(values))


def _range(key: str, given: dict[Any, Any], where: str) -> Range:
    for name in given:
        if name not in ("min", "max", "log"):
            raise refusal("min, max and log", "remove the key", f"{where}.{name}", given[name])
    ends = []
    for name in ("min", "max"):
        if name not in given:
            raise refusal("both min and max", f"add `{name}: NUMBER`", f"{where}.{name}", "(absent)")
        ends.append(_number(key, given[name], f"{where}.{name}"))
    low, high = ends
    log = given.get("log", False)
    if not isinstance(log, bool):
        raise refusal("true or false", "write `log: true`", f"{where}.log", log)
    if low >= high:
        fix = "raise max" if low == high else "exchange min and max"
        raise refusal(f"a number above min, {low}", fix, f"{where}.max", high)
    if log and low <= 0:
        raise refusal("a number above 0 with `log: true`", "raise min, or remove log", f"{where}.min", low)
    return Range(low, high, log, _is_whole(key))


def _number(key: str, given: Any, where: str) -> float:
    """`given` as a value of `training`. YAML 1.1 reads 1e-5 as a text."""
    field = _FIELDS[key.removeprefix(BELOW)]
    fix = f"write for example {example(field)}"
    try:
        value = given if _is_whole(key) or not isinstance(given, str) else float(given)
        if isinstance(value, bool) or not math.isfinite(value):
            raise ValueError
        TrainingConfig.model_validate({key.removeprefix(BELOW): value})
    except (ValidationError, ValueError, TypeError):
        raise refusal(allowed(field), fix, where, given) from None
    return value if _is_whole(key) else float(value)


def _is_whole(key: str) -> bool:
    annotation = _FIELDS[key.removeprefix(BELOW)].annotation
    return float not in (annotation, *typing.get_args(annotation))


def two_examples(key: str) -> str:
    """A list of two values that `key` takes, as text for a stack file."""
    one = float(example(_FIELDS[key.removeprefix(BELOW)]))
    two = (one, one * 2) if _is_whole(key) else (one / 2, one)
    return f"[{', '.join(f'{each:g}' for each in two)}]"
