"""What one test of the table does to a cluster: each fault with the phase it hit, and how long recovery took."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pytest

PROPERTY = "fault"


def tries(count: int, first: int = 1) -> list[Any]:
    """Parameters 0 to `count` - 1 of a test; those behind the `first` are for `make reliability` alone."""
    return [
        pytest.param(number, marks=[pytest.mark.again] if number >= first else []) for number in range(count)
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
