"""The options of `make plan` by which users give figures of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping

from toolchain.options import Option
from toolchain.planning import fabrics, loopback
from toolchain.planning.model_inputs import Given
from toolchain.steps import SetupError

LINKS = (loopback.NAME, *fabrics.NAMES)
FIGURES = (
    Option("--link", "what connects the replicas; loopback is measured", choices=("", *LINKS)),
    Option("--latency-us", "of a message between replicas, microseconds"),
    Option("--bandwidth-gbs", "of a replica one way, 10^9 bytes a second"),
    Option("--images-per-s", "that one replica computes, in place of what the last run measured"),
    Option("--parameters", "of the network, in place of the last run's"),
    Option("--batch-size", "images of a step and replica, in place of the stack file's"),
    Option("--fixed-ms", "milliseconds of a step that do not depend on its images"),
    Option("--cores", "that all replicas share; 0: each has its own"),
)
WHOLE = ("parameters", "batch_size", "cores")
MAY_BE_ZERO = ("latency_us", "fixed_ms", "cores")
NAMES = {"batch_size": "batch"}


def given(asked: Mapping[str, object]) -> Given:
    """The user's figures among the options. Raises SetupError for one that is no number, or too small."""
    values: dict[str, float | int | str | None] = {"link": str(asked["link"]) or None}
    for option in FIGURES[1:]:
        read = whole if option.name in WHOLE else number
        value = read(option.flag, str(asked[option.name]), option.name in MAY_BE_ZERO)
        values[NAMES.get(option.name, option.name)] = value
    return Given(**values)  # type: ignore[arg-type]


def number(flag: str, text: str, may_be_zero: bool = False) -> float | None:
    """The number `text`, None for an empty one. Raises SetupError."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and (value > 0 or (may_be_zero and value == 0)):
        return value
    least = "from 0 on" if may_be_zero else "above 0"
    raise SetupError(f"{flag} {text} is not a number {least}", f"give one, for example {flag} 2")


def whole(flag: str, text: str, may_be_zero: bool = False) -> int | None:
    """The whole number `text`, None for an empty one. Raises SetupError."""
    value = number(flag, text, may_be_zero)
    if value is None or value == int(value):
        return None if value is None else int(value)
    raise SetupError(f"{flag} {text} is not a whole number", f"give one, for example {flag} 2")
