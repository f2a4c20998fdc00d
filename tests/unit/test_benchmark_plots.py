"""The plots of docs/benchmarks.md: each is there, says what it shows, and is made of the data that are committed."""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path
from statistics import median

import pytest

from infra.config.operator import OperatorApi
from tests.pictures import measured, plots
from tests.pictures.measured import FOLDER, KEY, PAGE, PLOTS, PROGRAM

SHOWN = dict(re.findall(r"!\[([^\]]+)\]\(benchmarks/([\w-]+)\.png\)", PAGE.read_text()))
"""What the page says of a plot -> its name."""
PLAIN = {"loop.json", "first-start.json", "all-tests.json", "500-jobs.json"}
"""Data without a plot."""


@pytest.mark.parametrize("plot", PLOTS)
def test_a_plot_is_made_of_the_data_that_are_committed(plot: str) -> None:
    made_of = measured.texts(FOLDER / f"{plot}.png")[KEY]
    assert made_of == measured.digest(plot), ".venv/bin/python -m tests.pictures.plots draws them"


def test_the_page_shows_each_plot_once_and_says_what_it_shows() -> None:
    assert sorted(SHOWN.values()) == sorted(PLOTS)
    assert [said for said in SHOWN if len(said.split()) < 5] == []


def test_each_plot_is_drawn_and_nothing_else_lies_beside_the_data() -> None:
    assert plots.DRAWN.keys() == PLOTS.keys()
    data = {f"{name}.json" for names in PLOTS.values() for name in names}
    assert {file.name for file in FOLDER.iterdir()} - PLAIN == data | {f"{plot}.png" for plot in PLOTS}


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.json")), ids=lambda file: file.stem)
def test_data_say_when_on_what_and_how_they_were_measured(file: Path) -> None:
    found = measured.read(file)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", found.date)
    assert re.search(r"\d cores of ", found.machine)
    assert found.command.startswith("make bench")
    assert found.rows


@pytest.mark.parametrize("plot", PLOTS)
def test_figures_of_a_plot_stand_in_the_tables_of_its_section(plot: str) -> None:
    """Lists by their median; the page has three digits of most."""
    (section,) = (part for part in PAGE.read_text().split("\n## ") if f"(benchmarks/{plot}.png)" in part)
    table = " ".join(line for line in section.splitlines() if line.startswith("|"))
    shown = [float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*(?:\.\d+)?", table)]
    rows = [row for file in measured.files(plot) for row in measured.read(file).rows]
    values = [median(each) if isinstance(each, list) else each for row in rows for each in row.values()]
    figures = [each for each in values if not isinstance(each, str)]
    assert figures
    assert [each for each in figures if not any(abs(each - one) <= 0.01 * each for one in shown)] == []


def test_data_come_back_as_they_were_written(tmp_path: Path) -> None:
    wanted = measured.Measured(
        "2026-11-24", '2 cores of "x"', "make bench", [{"a": 1.5, "b": [1, 2]}, {"c": "ü"}]
    )
    wanted.write(tmp_path / "new" / "x.json")
    assert measured.read(tmp_path / "new" / "x.json") == wanted


@pytest.mark.parametrize("plot", PLOTS)
def test_another_figure_or_program_makes_another_plot(plot: str, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(FOLDER, folder)
    digests = {measured.digest(plot, folder)}
    for file in measured.files(plot, folder):
        data = json.loads(file.read_text())
        data["rows"][0]["added"] = 1
        file.write_text(json.dumps(data))
        digests.add(measured.digest(plot, folder))
    program = tmp_path / "plots.py"
    program.write_text(PROGRAM.read_text() + "\n")
    digests.add(measured.digest(plot, folder, program))
    assert len(digests) == len(PLOTS[plot]) + 2


def test_data_are_what_benchmarks_record() -> None:
    """Each file's name stands where a benchmark hands one to `record`; those of an operator end in its API."""
    names = set()
    for file in (measured.ROOT / "tests" / "bench").glob("test_*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "record":
                names |= recorded(ast.unparse(call.args[0]))
    assert {name for data in PLOTS.values() for name in data} <= names


def recorded(argument: str) -> set[str]:
    """The names that the source of an argument stands for."""
    api = "{api.value}"
    if api in argument:
        return {argument[2:-1].replace(api, each.value) for each in OperatorApi}
    return {argument[1:-1]}
