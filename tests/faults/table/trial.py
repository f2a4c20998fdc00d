"""What one test of the table does to a cluster: each fault with the phase it hit, and how long recovery took."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.faults.table.rows import ROWS, Way, key_of

PROPERTY = "fault"


def of_each_way(rows: Iterable[str]) -> list[Any]:
    """Parameters `way` and `row` of a test, with their marker: each of `rows` in each way that it has a row for."""
    return [
        pytest.param(way, row, id=key_of(row, way), marks=pytest.mark.row(key_of(row, way)))
        for way in Way
        for row in rows
        if key_of(row, way) in ROWS
    ]


def each_way(row: str) -> list[Any]:
    """Parameter `way` of a test of one row, with its marker. The test's id names the way where it is another one."""
    return [
        pytest.param(way, id=way.value or pytest.HIDDEN_PARAM, marks=pytest.mark.row(key_of(row, way)))
        for way in Way
    ]


@dataclass
class Fault:
    """One try.

    Parameters:
        phase: what the fault really hit, as the test has seen it.
        seconds: from the fault until everything was as before; None while that has not come.
    """

    phase: str
    seconds: float | None = None


@dataclass
class Trial:
    """The faults of one test, in order."""

    faults: list[Fault] = field(default_factory=list)
    _struck: float = 0.0

    def strike(self, phase: str, when: float | None = None) -> None:
        """A fault has struck in `phase`, just now or at `when`, in seconds since the epoch."""
        self.faults.append(Fault(phase))
        self._struck = when or time.time()

    def recovered(self) -> None:
        """Everything is as it was before the last fault."""
        self.faults[-1].seconds = round(time.time() - self._struck, 1)
