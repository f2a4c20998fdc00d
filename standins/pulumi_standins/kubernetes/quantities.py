"""Quantities as Kubernetes prints them: `1000m` is `1`, `1024Mi` is `1Gi`, `0.5` is `500m`."""

from __future__ import annotations

import math
import re
from fractions import Fraction

_QUANTITY = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL.items()}


def canonical(text: str) -> str:
    """The canonical form (apimachinery, pkg/api/resource); raises ValueError for an invalid quantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"no quantity: {text!r}")
    sign, number, exponent, suffix = match.groups(default="")
    value = Fraction(number)
    if exponent:
        value *= Fraction(10) ** int(exponent[1:])
    elif suffix.endswith("i"):
        value *= 1024 ** _BINARY.index(suffix)
    else:
        value *= Fraction(10) ** _DECIMAL[suffix]
    # The smallest part is a billionth; a smaller rest is rounded up to it.
    value = Fraction(math.ceil(value * 10**9), 10**9)
    if value == 0:
        return "0"
    # In binary form, a number below 1024 would have no suffix, so it is printed as a decimal.
    if suffix.endswith("i") and value >= 1024:
        return sign.replace("+", "") + _binary(value)
    return sign.replace("+", "") + _decimal(value, is_exponent=bool(exponent))


def _binary(value: Fraction) -> str:
    whole, power = math.ceil(value), 0
    while whole % 1024 == 0 and power < len(_BINARY) - 1:
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY[power]}"


def _decimal(value: Fraction, *, is_exponent: bool) -> str:
    power = -9
    mantissa = value * 10**9
    while mantissa % 1000 == 0 and power < 18:
        mantissa, power = mantissa / 1000, power + 3
    if is_exponent:
        return f"{mantissa}e{power}" if power else f"{mantissa}"
    return f"{mantissa}{_SUFFIXES[power]}"
