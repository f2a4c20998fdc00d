"""The tries that have been made, one JSON object a line: a line is whole or it is not there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Record:
    """One try of a row.

    Parameters:
        row: key of ROWS.
        test: id of the test that made it.
        seconds: to recover; None where it did not.
        commit: short hash of what was tried.
        processor: of the machine, and its number of cores.
    """

    row: str
    test: str
    phase: str
    survived: bool
    seconds: float | None
    date: str
    commit: str
    processor: str


def read(file: Path) -> list[Record]:
    """All records; a last line that a crash has cut off does not count."""
    if not file.exists():
        return []
    whole, _, _ = file.read_text().rpartition("\n")
    return [Record(**json.loads(line)) for line in whole.splitlines()]


def add(file: Path, record: Record) -> None:
    """Write `record` behind the others, on the disk when this returns."""
    file.parent.mkdir(parents=True, exist_ok=True)
    _drop_torn_line(file)
    with file.open("a") as handle:
        handle.write(f"{json.dumps(asdict(record))}\n")
        handle.flush()
        os.fsync(handle.fileno())


def keep(file: Path, wanted: Callable[[Record], bool]) -> None:
    """Leave only the records that are `wanted`."""
    kept = [json.dumps(asdict(record)) for record in read(file) if wanted(record)]
    fresh = file.with_name(f".{file.name}")
    fresh.write_text("".join(f"{line}\n" for line in kept))
    fresh.replace(file)


def _drop_torn_line(file: Path) -> None:
    text = file.read_bytes() if file.exists() else b""
    if text and not text.endswith(b"\n"):
        os.truncate(file, text.rfind(b"\n") + 1)
