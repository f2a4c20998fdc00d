"""docs/runbooks/rehearsed.md: date and result of each runbook's last rehearsal, written by the test run itself."""

from __future__ import annotations

import re
from pathlib import Path

from tests.runbooks.rehearsal import Result

HEAD = """\
# Last rehearsals

Every command block that a kind cluster can carry was run, and its output compared, by the code in `tests/runbooks/`:
whole, by `make test-full ARGS=--record-rehearsal`, or a runbook at a time. Quick ones run in every `make test`.

| runbook | rehearsed on | result | commands | seconds |
| --- | --- | --- | ---: | ---: |
"""
_ROW = re.compile(r"^\| \[([\w-]+)\]\(\1\.md\) \| (\S+) \| (.+?) \| (\d+) \| (\d+) \|$", re.MULTILINE)

Row = tuple[str, str, str, str]
"""Date, result, number of commands, seconds."""


def row(date: str, result: Result | None) -> Row:
    """`result` is None where a command did not do what the runbook says."""
    if result is None:
        return (date, "failed", "0", "0")
    return (date, "passed", str(result.commands), f"{result.seconds:.0f}")


def read(file: Path) -> dict[str, Row]:
    """Runbook -> row."""
    text = file.read_text() if file.exists() else ""
    return {found[1]: (found[2], found[3], found[4], found[5]) for found in _ROW.finditer(text)}


def write(file: Path, fresh: dict[str, Row], names: list[str]) -> None:
    """Put `fresh` rows over those that are there; rows of runbooks that are gone go, too."""
    rows = {**read(file), **fresh}
    lines = [f"| [{name}]({name}.md) | {' | '.join(rows[name])} |\n" for name in names if name in rows]
    file.write_text(HEAD + "".join(lines))
