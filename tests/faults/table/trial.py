"""What one test of the table does to a cluster: each fault with the phase it hit, and how long recovery took."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from infra.config.operator import OperatorApi
from tests.faults.table.rows import ROWS, key_of

PROPERTY = "fault"


def of_each_api(rows: Iterable[str]) -> list[Any]:
    """Parameters `api` and `row` of a test, with their marker: each of `rows` with each API that it has a row for."""
    return [
        pytest.param(api, row, id=key_of(row, api), marks=pytest.mark.row(key_of(row, api)))
        for api in OperatorApi
        for row in rows
        if key_of(row, api) in ROWS
    ]


def each_api(row: str) -> list[Any]:
    """Parameter `api` of a test of one row, with its marker. The test's id names the API where it is not v1."""
    ids: dict[OperatorApi, Any] = {OperatorApi.V1: pytest.HIDDEN_PARAM, OperatorApi.V2: OperatorApi.V2.value}
    return [pytest.param(api, id=ids[api], marks=pytest.mark.row(key_of(row, api))) for api in OperatorApi]


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
