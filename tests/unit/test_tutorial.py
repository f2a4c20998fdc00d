"""docs/tutorial.md and its pictures; that its commands do what they show is tested in tests/e2e, on a cluster."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from tests.pictures import tutorial
from tests.pictures.tutorial import FOLDER, LIVE

STEPS = tutorial.steps()
NAMES = [name for step in STEPS for name in step.pictures]
RECORD = "take it anew: make pictures"


def test_every_picture_is_of_a_command_and_there_is_no_other() -> None:
    linked = re.findall(r"\(tutorial/([\w-]+)\.svg\)", tutorial.PAGE.read_text())
    assert sorted(NAMES) == sorted(set(linked)) == sorted(file.stem for file in FOLDER.glob("*.svg"))
    assert len(NAMES) >= 6


def test_the_report_is_shown_as_a_browser_shows_it() -> None:
    assert re.search(r"^!\[[^]]+\]\(tutorial/report\.png\)$", tutorial.PAGE.read_text(), re.MULTILINE)
    assert tutorial.REPORT.read_bytes().startswith(b"\x89PNG")
    assert {file for file in FOLDER.iterdir() if file.suffix != ".svg"} == {tutorial.REPORT}


@pytest.mark.parametrize(
    ("step", "name"), [(step, name) for step in STEPS for name in step.pictures], ids=NAMES
)
def test_a_picture_shows_the_command_of_the_page(step: tutorial.Step, name: str) -> None:
    text = tutorial.file(name).read_text()
    shown = "".join(ElementTree.fromstring(text).itertext()).replace("\xa0", " ")
    unbroken = re.sub(r"\s+", "", shown)
    assert re.sub(r"\s+", "", f"$ {step.command.text}") in unbroken, RECORD
    if not name.endswith(LIVE):
        last = re.sub(r"\s+", "", (step.command.expected or ("",))[-1].partition("…")[0])
        assert last in unbroken, RECORD
    assert ("images/s" in shown) is name.endswith(LIVE)


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_names_nothing_of_the_machine_that_took_it(name: str) -> None:
    text = tutorial.file(name).read_text()
    assert not re.search(r"/tmp/|/root/|/home/|tutorial-[0-9a-f]{6}", text)
    assert not re.search(r"url\((?!#)", text)


@pytest.mark.parametrize(
    ("row", "trains"),
    [
        ("     epoch 3/12 ━━━━━━━━━━━━────────────  50%  5,000 images/s  0:03 left", True),
        ("     epoch 3/12 ━━━━━━━━━━━━━━━━━━━━━━━━ 100%  5,000 images/s  0:03 left", False),
        ("     epoch 1/12 ──────────────────────── 0%", False),
        ("pytorch-simple: epoch 3 of 12: accuracy=0.9", False),
    ],
)
def test_a_moment_is_kept_while_an_epoch_is_half_way(row: str, trains: bool) -> None:
    assert tutorial.trains(["other", row]) is trains
