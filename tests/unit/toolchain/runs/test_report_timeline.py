"""Origin and timeline in a run's report, which the trainer has written without them."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path

import pytest

from infra import agreed
from toolchain.runs import records, report_timeline

FOUND = [
    ("2026-01-01T00:00:01Z", "job j", "Created"),
    ("2026-01-01T00:00:31Z", "pod j-master-0, container <x>", "ended: OOMKilled, exit code 137"),
]
PAGE = (
    '<!doctype html>\n<html lang="en"><body><nav><ul><li><a href="#result">Result</a></li>'
    '<li><a href="#again">How to run it again</a></li></ul></nav><main>'
    '<section aria-labelledby="result"><h2 id="result">Result</h2></section>\n'
    '<section aria-labelledby="again"><h2 id="again">How to run it again</h2></section>\n</main></body></html>\n'
)


class Tags(HTMLParser):
    """Fails for a tag that is not closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with a report and a timeline, both old."""
    (tmp_path / agreed.REPORT).write_text(PAGE)
    (tmp_path / agreed.TIMELINE).write_text(json.dumps(FOUND))
    os.utime(tmp_path / agreed.REPORT, (1000, 1000))
    return tmp_path


def page(folder: Path) -> str:
    return (folder / agreed.REPORT).read_text()


def test_the_section_comes_before_the_last_and_is_linked(folder: Path) -> None:
    report_timeline.complete([folder])
    text = page(folder)
    assert text.index('id="result"') < text.index('id="timeline"') < text.index('id="again"')
    assert text.index('href="#timeline"') < text.index('href="#again"')
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    for cell in ("0:30", "job j", "pod j-master-0, container <x>", "ended: OOMKilled, exit code 137"):
        assert cell in tags.text
    assert (folder / agreed.REPORT).stat().st_mtime == 1000
    assert len(list(folder.iterdir())) == 2, "nothing is left beside it"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0:00"),
        (59, "0:59"),
        (61, "1:01"),
        (3725, "1:02:05"),
        (86400, "1 d 0:00:00"),
        (180_000, "2 d 2:00:00"),
    ],
)
def test_each_entry_says_how_long_after_the_first_it_was(seconds: int, told: str) -> None:
    """In any zone: an API server may tell its own."""
    at = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    entries = [(each.isoformat(), "job j", "x") for each in (at, at + timedelta(seconds=seconds))]
    whole = report_timeline.with_timeline(PAGE, entries)
    assert "Times after 2026-01-01 10:00:00 UTC." in whole
    assert f'<th scope="row">{told}</th><td>job j</td>' in whole


ORIGIN = {"commit": "0123abcd", "clean": False, "image": "sha256:<4>"}


def test_the_origin_comes_before_the_timeline(folder: Path) -> None:
    (folder / records.ORIGIN).write_text(json.dumps(ORIGIN))
    report_timeline.complete([folder])
    once = page(folder)
    places = [once.index(f'id="{name}"') for name in ("result", "origin", "timeline", "again")]
    assert places == sorted(places)
    tags = Tags()
    tags.feed(once)
    assert tags.open == []
    for cell in ("0123abcd", "with changes that no commit holds", "sha256:<4>"):
        assert cell in tags.text
    report_timeline.complete([folder])
    assert page(folder) == once


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"clean": True}, ["0123abcd", "clean", "sha256:<4>"]),
        ({"clean": None, "commit": None}, ["not known", "not known", "sha256:<4>"]),
        ({"image": None}, ["0123abcd", "with changes that no commit holds", "not known"]),
    ],
)
def test_what_nobody_knows_of_the_origin_is_said(changed: dict[str, object], said: list[str]) -> None:
    tags = Tags()
    tags.feed(report_timeline.with_origin(PAGE, {**ORIGIN, **changed}))
    cells = tags.text[tags.text.index("Origin") :]
    assert [cells[cells.index(name) + 1] for name in ("commit", "tree", "image")] == said


def test_once_more_changes_nothing_and_a_longer_timeline_takes_the_place(folder: Path) -> None:
    report_timeline.complete([folder, folder])
    once = page(folder)
    report_timeline.complete([folder])
    assert page(folder) == once
    (folder / agreed.TIMELINE).write_text(
        json.dumps([*FOUND, ("2026-01-01T00:01:01Z", "job j", "Succeeded")])
    )
    report_timeline.complete([folder])
    assert page(folder).count('id="timeline"') == page(folder).count('href="#timeline"') == 1
    assert "Succeeded" in page(folder)
    row = '<tr><th scope="row">1:00</th><td>job j</td><td>Succeeded</td></tr>'
    assert page(folder).replace(row, "") == once


@pytest.mark.parametrize("told", [None, "", "{", "[]", "[1]"])
def test_without_a_timeline_the_report_stays(folder: Path, told: str | None) -> None:
    (folder / agreed.TIMELINE).unlink()
    if told is not None:
        (folder / agreed.TIMELINE).write_text(told)
    report_timeline.complete([folder])
    assert page(folder) == PAGE


def test_a_page_of_somebody_elses_stays(folder: Path) -> None:
    (folder / agreed.REPORT).write_text("<p>own</p>")
    report_timeline.complete([folder, folder / "missing"])
    assert page(folder) == "<p>own</p>"
