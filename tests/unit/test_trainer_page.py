"""docs/trainer.md against the program that it describes."""

from __future__ import annotations

import ast
import re

import pytest

from toolchain.paths import ROOT
from trainer import options
from trainer.launch import ExitStatus
from trainer.recipes import PRESETS, RECIPES

PAGE = (ROOT / "docs" / "trainer.md").read_text()


def test_every_option_is_on_the_page() -> None:
    known = options.parser({})._option_string_actions
    assert [name for name in known if name.startswith("--") and name not in PAGE] == []


def test_the_header_of_train_py_states_what_was_measured() -> None:
    header = ast.get_docstring(ast.parse((ROOT / "trainer" / "train.py").read_text())) or ""
    measured = (ROOT / "docs" / "benchmarks.md").read_text()
    figures = re.findall(r"\d\.\d{4}|\d+\.\d+ s\b|torch \d[\d.]*\d", header)
    assert len(figures) >= 4
    assert [figure for figure in figures if figure not in measured] == []


@pytest.mark.parametrize("name", RECIPES)
def test_the_row_of_a_recipe_states_its_numbers(name: str) -> None:
    beginning = f"| `{name}` | `{RECIPES[name].network}` |"
    row = next((line for line in PAGE.splitlines() if line.startswith(beginning)), "")
    assert row, f"docs/trainer.md has no row that begins with {beginning}"
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    recipe = RECIPES[name]
    assert f"{recipe.lr}" in cells[2]
    assert cells[3:] == [str(recipe.global_batch), str(recipe.epochs)]


def test_every_preset_is_named() -> None:
    assert all(f"`{preset}`" in PAGE for preset in PRESETS)


@pytest.mark.parametrize("status", ExitStatus)
def test_the_row_of_an_exit_status_says_whether_it_is_restarted(status: ExitStatus) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {int(status)} |")]
    restarted = row.strip("|").split("|")[2].strip()
    assert restarted == ("" if status == 0 else "yes" if status >= 128 else "no")
