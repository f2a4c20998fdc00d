"""docs/finished-run.svg, which README opens with: what it takes from a report. tests/e2e gives it a real one."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

import pytest

from infra.paths import ROOT
from tests.pictures import finished_run
from tests.pictures.finished_run import FACTS, MISTAKES, ReportError

SVG = "{http://www.w3.org/2000/svg}"
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def report(facts: Sequence[str] = FACTS, mistakes: int = 3) -> str:
    """As trainer.report writes it."""
    colours = "".join(
        f":root {{ --page: {page}; --panel: #111111; --text: #222222; --soft: #333333; --rule: #444444; "
        "--line0: #555555; --line1: #666666 }"
        for page in ("#ffffff", "#000000")
    )
    told = "".join(f"<div><dt>{name}</dt><dd>{name} &lt; 1</dd></div>" for name in facts)
    images = "".join(
        f'<img width="28" height="28" alt="test example {n}: true {n}, predicted shirt, 99.{n % 10}%" src="{PIXEL}">'
        for n in range(mistakes)
    )
    return (
        f'<style>{colours}</style><h1>mnist-1</h1><p class="soft">lenet on mnist &amp; more</p>{told}'
        '<svg viewBox="0 0 480 260" role="img"><title>Loss</title><polyline class="line0" points="1,2 3,4"/></svg>'
        f"{images}"
    )


def texts(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_result_curve_and_mistakes_are_shown() -> None:
    picture = finished_run.drawn(finished_run.read(report()))
    shown = texts(picture)
    assert shown[:2] == ["mnist-1", "lenet on mnist & more"]
    assert [name for name in FACTS if f"{name} < 1" not in shown] == []
    assert picture.count('points="1,2 3,4"') == 1
    assert shown[-6:-4] == ["0 as shirt", "99.0%"]
    assert ElementTree.fromstring(picture).findall(f".//{SVG}image")[2].attrib["href"] == PIXEL


@pytest.mark.parametrize("count", [0, 1, MISTAKES, 25])
def test_of_many_mistakes_the_first_are_shown(count: int) -> None:
    picture = finished_run.drawn(finished_run.read(report(mistakes=count)))
    images = ElementTree.fromstring(picture).findall(f".//{SVG}image")
    assert len(images) == min(count, MISTAKES)
    assert all(float(each.attrib["x"]) + finished_run.TILE < finished_run.WIDTH for each in images)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<h1>a</h1>",
        report(facts=FACTS[1:]),
        report().replace("<svg", "<p"),
        report().replace(":root", "p"),
    ],
)
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(ReportError):
        finished_run.read(text)


def test_the_committed_picture_is_whole_small_and_fetches_nothing() -> None:
    text = finished_run.PAGE.read_text()
    page = ElementTree.fromstring(text)
    assert [name for name in FACTS if name not in texts(text)] == []
    assert len(page.findall(f".//{SVG}image")) == MISTAKES
    assert {each.attrib["href"][:15] for each in page.iter(f"{SVG}image")} == {"data:image/png;"}
    assert set(re.findall(r"https?://[\w./]+", text)) == {"http://www.w3.org/2000/svg"}
    assert len(text) < 100_000


def test_readme_opens_with_it() -> None:
    opening = re.compile(r"# trainstack\n\n!\[[^\]]{20,}\]\(docs/finished-run\.svg\)\n")
    assert opening.match((ROOT / "README.md").read_text())
