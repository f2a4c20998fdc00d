"""The table of parts in docs/internals/measuring.md: each benchmark is in one part; once each takes an hour."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from toolchain.paths import ROOT

PAGE = (ROOT / "docs" / "internals" / "measuring.md").read_text()
PARTS = re.findall(r"^\| `([^`]+)`[^|]*\| (\d+) \|[^|]*\| (\d+) \|$", PAGE, re.MULTILINE)
"""Of each part: a word for `-k` or a file, minutes when measured once, and those of a thorough run."""


def benchmarks() -> Iterator[tuple[str, str]]:
    """File and name of each."""
    for file in sorted((ROOT / "tests" / "bench").glob("test_*.py")):
        for each in ast.parse(file.read_text()).body:
            if isinstance(each, ast.FunctionDef) and each.name.startswith("test_"):
                yield file.relative_to(ROOT).as_posix(), each.name


@pytest.mark.parametrize(("file", "name"), list(benchmarks()))
def test_a_benchmark_is_in_one_part(file: str, name: str) -> None:
    found = [word for word, *_ in PARTS if word == file or word in name]
    assert len(found) == 1, found


def test_a_part_has_benchmarks() -> None:
    every = list(benchmarks())
    assert [word for word, *_ in PARTS if not any(word == file or word in name for file, name in every)] == []


def test_the_minutes_add_up_and_once_each_is_an_hour() -> None:
    whole = re.search(r"^\| all \| (\d+) \| \| (\d+) \|$", PAGE, re.MULTILINE)
    assert whole
    assert [int(each) for each in whole.groups()] == [
        sum(int(row[place]) for row in PARTS) for place in (1, 2)
    ]
    assert int(whole[1]) <= 60
