"""The page of `make compare`: the curves of two runs over each other."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from tests.unit.toolchain.runs.conftest import Models
from toolchain.__main__ import main
from toolchain.runs import comparison, records

LINE = {"step": 1, "epoch": 1, "accuracy": 0.5, "test_loss": 0.5, "lr": 0.01, "images_per_s": 10.0}


def page(models: Models, one: list[dict[str, Any]], other: list[dict[str, Any]]) -> str:
    models.run("a-1", *one)
    models.run("b<2>", *other, stack="gpu")
    return comparison.page(records.find("a-1"), records.find("gpu/b<2>"))


def charts(text: str) -> dict[str, ElementTree.Element]:
    """Title -> chart."""
    found = re.findall(r"<figure>(<svg.*?</svg>)<figcaption>(.*?)</figcaption>", text, re.DOTALL)
    return {title: ElementTree.fromstring(chart) for chart, title in found}


def test_the_command_writes_a_page_and_names_it(models: Models, capsys: pytest.CaptureFixture[str]) -> None:
    models.run("a-1", LINE)
    models.run("b-2", {**LINE, "accuracy": 0.75})
    assert main(["compare", "--", "a-1", "b-2"]) == 0
    (file,) = comparison.FOLDER.iterdir()
    assert capsys.readouterr().out.splitlines()[-1] == f"curves: {file}"
    assert file.read_text().startswith("<!doctype html>")


def test_each_curve_has_both_runs_in_one_frame(models: Models) -> None:
    one = [{**LINE, "step": step, "loss": 2.0 - step / 10} for step in range(10)]
    other = [{**LINE, "step": step, "loss": 1.0 - step / 20} for step in range(20)]
    found = charts(page(models, one, other))
    assert list(found) == [title for _, title in comparison.CURVES]
    loss = found["Loss on training examples"]
    first, second = (
        [tuple(map(float, spot.split(","))) for spot in each.attrib["points"].split()]
        for each in loss.iter("polyline")
    )
    assert max(x for x, _ in first) < max(x for x, _ in second) == comparison.WIDTH - comparison.RIGHT
    assert first[-1][1] < second[-1][1], "it ended with a higher loss"
    assert loss.attrib["aria-label"] == (
        "Loss on training examples by step: dev/a-1 from 2.3 to 1.1; gpu/b<2> from 2.3 to 0.05"
    )


def test_the_page_needs_nothing_but_itself_and_no_name_is_markup(models: Models) -> None:
    text = page(models, [LINE], [LINE])
    assert "http" not in text
    assert not re.search(r"url\(|@import|<script|<link", text)
    assert "b<2>" not in text
    assert "gpu/b&lt;2&gt;" in text


@pytest.mark.parametrize("value", [None, "x", True, float("nan"), float("inf")])
def test_what_is_no_number_is_no_point(models: Models, value: object) -> None:
    found = charts(page(models, [{**LINE, "accuracy": value}], [LINE]))
    circles = [each.attrib["class"] for each in found["Accuracy on test examples"].iter("circle")]
    assert circles == ["dot1"]


@pytest.mark.parametrize("count", [1, comparison.MOST_POINTS, 100_000])
def test_a_long_run_is_thinned_to_its_end(models: Models, count: int) -> None:
    lines = [{"step": step, "lr": 1.0} for step in range(1, count + 1)]
    models.run("long", *lines)
    points = comparison._points(records.metrics(records.find("long")), "lr")
    assert len(points) <= comparison.MOST_POINTS + 1
    assert points[-1] == (count, 1.0)


def test_runs_that_have_told_nothing_have_no_page(models: Models) -> None:
    for name in ("a-1", "b-2"):
        (models.run(name) / records.METRICS).write_text("")
    assert comparison.write(records.find("a-1"), records.find("b-2")) is None
    assert not comparison.FOLDER.exists()


@pytest.mark.parametrize("power", range(-12, 13))
@pytest.mark.parametrize("digits", [1.0, 1.2345678, 9.9951, 9.9999999, -1.2345678, -9.9999999])
@pytest.mark.parametrize("others", [[], [0.0], [0.5], [1000.0]], ids=str)
def test_the_numbers_beside_a_curve_are_round_and_hold_it(
    models: Models, digits: float, power: int, others: list[float]
) -> None:
    values = [digits * 10.0**power, *others]
    lines = [{**LINE, "test_loss": value, "step": at} for at, value in enumerate(values)]
    found = charts(page(models, lines, [{"step": 1}]))["Loss on test examples"]
    marks = [each.text or "" for each in found.iter("text")][:-3]
    assert 2 <= len(marks) <= 2 * comparison.TICKS
    assert len({*marks}) == len(marks), "no two are the same, shortened as they are"
    assert all(0 < len(mark) <= 9 for mark in marks), marks
    room = 1e-6 * max(map(abs, values))
    assert float(marks[0]) <= min(values) + room
    assert float(marks[-1]) >= max(values) - room
    spots = [float(each.attrib["cy"]) for each in found.iter("circle")]
    assert all(comparison.TOP <= spot <= comparison.HEIGHT - comparison.BOTTOM for spot in spots)
