"""Which tests each suite runs."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from toolchain.checks import suites
from toolchain.checks.suites import SUITES
from toolchain.operating import setup
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
    """`pulumi` stands for one file, which the second stage names; each `row` is tried by `make reliability`."""
    words = {word for stage in SUITES["full"] for word in re.findall(r"\w+", stage.marks)}
    assert words - {"not", "and"} == {"pulumi", "bench", "gpu", "row", "slow"}
    assert [stage.marks for stage in SUITES["reliability"]] == ["row"]


@pytest.mark.parametrize(
    ("ended", "extra", "status"),
    [
        ((0, 0), (), 0),
        ((0, 5), ("-k", "x"), 0),
        ((5, 0), ("-k", "x"), 0),
        ((5, 5), ("-k", "x"), 5),
        ((0, 5), (), 5),
        ((5, 1), ("-k", "x"), 1),
        ((1,), (), 1),
    ],
)
def test_options_may_leave_a_stage_without_a_test_but_not_each(
    monkeypatch: pytest.MonkeyPatch, ended: tuple[int, ...], extra: tuple[str, ...], status: int
) -> None:
    statuses = iter(ended)
    monkeypatch.setattr(suites, "_prepare", lambda stage: {})
    monkeypatch.setattr(setup, "project_lock", nullcontext)
    monkeypatch.setattr(suites, "run_pytest", lambda chosen, variables: next(statuses))
    assert suites._stages(SUITES["full"], None, extra) == status
    assert list(statuses) == [], "a stage that fails is the last"


@pytest.mark.parametrize(
    ("suite", "extra", "calls"),
    [
        ("bench", ("tests/bench/test_loop.py",), [["tests/bench/test_loop.py"]]),
        ("bench", ("-k", "loop"), [["tests/bench"]]),
        ("full", ("tests/unit/test_readme.py::test_a", "-x"), [["tests/unit/test_readme.py::test_a"]]),
        ("full", ("tests/faults/table/test_saves.py",), [["tests/faults/table/test_saves.py"]]),
        ("full", ("tests/faults/test_bad_input.py", "tests/e2e"), [["tests/faults/test_bad_input.py", "tests/e2e"]]),
        ("full", ("tests/unit", "tests/e2e"), [["tests/unit"], ["tests/e2e"]]),
    ],
)  # fmt: skip
def test_what_is_named_is_all_that_is_run(
    monkeypatch: pytest.MonkeyPatch, suite: str, extra: tuple[str, ...], calls: list[list[str]]
) -> None:
    monkeypatch.setattr(suites, "_prepare", lambda stage: {})
    monkeypatch.setattr(setup, "project_lock", nullcontext)
    seen: list[list[str]] = []

    def run(chosen: list[str], variables: dict[str, str]) -> int:
        seen.append(chosen)
        return 0

    monkeypatch.setattr(suites, "run_pytest", run)
    assert suites._stages(SUITES[suite], None, extra) == 0
    assert [each[: each.index("-m")] for each in seen] == calls
    options = [each for each in extra if not each.startswith(("tests/", "standins/"))]
    assert all(each[len(each) - len(options) :] == options for each in seen)


def _is_below(file: Path, place: Path) -> bool:
    return file == place or place in file.parents


def test_a_test_that_hangs_fails_with_its_line_and_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import time\n\ndef test_passes():\n    pass\n\ndef test_hangs():\n    time.sleep(600)\n"
    )
    command = [
        *f"{sys.executable} -m pytest -p no:cacheprovider --numprocesses 1".split(),
        *suites.hang_after(1),
    ]
    done = subprocess.run([*command, tmp_path], cwd=tmp_path, capture_output=True, text=True)
    assert re.search(r'test_it.py", line 7 in test_hangs', done.stderr)
    assert "1 failed, 1 passed" in done.stdout
    assert done.returncode == 1
