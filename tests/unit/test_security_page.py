"""docs/internals/security-tests.md: each row of its tables names tests, and each test exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "internals" / "security-tests.md").read_text()
NAMED = re.compile(r"`((?:standins/)?tests/[\w/.-]+?)(?:::(\w+))?`")


def rows() -> Iterator[list[str]]:
    """The cells of each row below a heading whose last column is of tests."""
    is_of_tests = False
    for line in PAGE.splitlines():
        cells = [each.strip() for each in line.strip("|").split(" | ")] if line.startswith("|") else []
        if not cells:
            is_of_tests = False
        elif cells[-1].rstrip(" |") in ("test", "tests"):
            is_of_tests = True
        elif is_of_tests and not line.startswith("| ---"):
            yield cells


def functions(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("file", "function"), sorted(set(NAMED.findall(PAGE))), ids="::".join)
def test_a_test_that_the_page_names_is_there(file: str, function: str) -> None:
    assert (ROOT / file).exists()
    assert not function or function in functions(ROOT / file)


def test_each_row_names_a_test() -> None:
    found = list(rows())
    assert len(found) > 50
    assert [each for each in found if not NAMED.search(each[-1])] == []


def test_what_was_found_names_functions() -> None:
    part = PAGE.partition("## What was found on a running stack")[2].partition("\n## ")[0]
    named = NAMED.findall(part)
    assert len(named) > 20
    assert [file for file, function in named if not function] == []
