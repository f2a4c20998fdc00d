"""Latency and bandwidth of a link from measured all-reduces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolchain.planning.model import Link, sent

# Faster than any machine: where the figures do not grow with the size, they do not tell the bandwidth.
MOST_BANDWIDTH = 1e15


@dataclass(frozen=True)
class AllReduce:
    """One measurement: `seconds` that an all-reduce of `size` bytes took between `ranks` processes."""

    ranks: int
    size: int
    seconds: float


def line(rows: Iterable[tuple[float, float, float]]) -> tuple[float, float]:
    """`a` and `b`, at least 0, for which a x + b y is nearest to t over `rows` of (x, y, t), as a share of t.

    Least squares of the relative errors: a short message counts as much as a long one. Raises ValueError where the
    rows leave a or b open.
    """
    scaled = [(x / t, y / t) for x, y, t in rows]
    xx, xy, yy = (sum(p[i] * p[j] for p in scaled) for i, j in ((0, 0), (0, 1), (1, 1)))
    x, y = (sum(p[i] for p in scaled) for i in (0, 1))
    determinant = xx * yy - xy * xy
    if determinant <= 1e-12 * xx * yy:
        raise ValueError("the measurements do not tell two figures apart")
    a, b = (x * yy - y * xy) / determinant, (y * xx - x * xy) / determinant
    if a < 0:
        return 0.0, y / yy
    return (x / xx, 0.0) if b < 0 else (a, b)


def link(measured: Iterable[AllReduce], cores: int) -> Link:
    """The link over which rings would take as long; processes share `cores`. Raises ValueError."""
    rows = []
    for each in measured:
        seconds = each.seconds / max(1.0, each.ranks / cores)
        rows.append((2.0 * (each.ranks - 1), float(sent(each.ranks, each.size)), seconds))
    latency, second_per_byte = line(rows)
    return Link(latency, 1 / max(second_per_byte, 1 / MOST_BANDWIDTH))
