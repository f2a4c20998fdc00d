"""Which tests each suite runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.checks.suites import SUITES
from toolchain.paths import ROOT

TESTED = [ROOT / "tests", ROOT / "standins" / "tests"]


def folders(suite: str) -> list[str]:
    return [folder for stage in SUITES[suite] for folder in stage.folders]


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_names_each_place_once_and_each_exists(suite: str) -> None:
    named = folders(suite)
    assert sorted(named) == sorted(set(named))
    assert [folder for folder in named if not (ROOT / folder).exists()] == []


def test_every_test_is_in_the_full_suite_or_a_benchmark() -> None:
    named = [ROOT / folder for suite in ("full", "bench") for folder in folders(suite)]
    # These run in the trainer's image, started by tests/trainer/test_image.py.
    inside = ROOT / "tests" / "trainer" / "inside"
    files = [file for folder in TESTED for file in folder.rglob("test_*.py") if inside not in file.parents]
    assert len(files) > 50
    assert [file for file in files if not any(_is_below(file, place) for place in named)] == []


def test_the_full_suite_leaves_out_marks_that_another_suite_has() -> None:
    """`pulumi` stands for one file, which the second stage names; what `again` marks is tried by `make reliability`."""
    left_out = {
        word for stage in SUITES["full"] for word in stage.marks.split() if word not in ("not", "and")
    }
    assert left_out == {"pulumi", "bench", "gpu", "again"}


def _is_below(file: Path, place: Path) -> bool:
    return file == place or place in file.parents
