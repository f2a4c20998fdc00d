"""Which tests each suite runs; an interrupted one takes down what it has started, and goes on for unchanged files."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.e2e.waiting import wait_until
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


SLOW = """
import time, pytest
from pathlib import Path

@pytest.fixture(scope="session")
def cluster():
    yield
    time.sleep(0.5)
    Path("{folder}/down").touch()

def test_slow(cluster):
    Path("{folder}/up").touch()
    time.sleep(600)
"""
RUN = """
import os, signal, sys
from toolchain.checks import suites
signal.signal(signal.SIGTERM, signal.default_int_handler)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts us beside itself ignores it
try:
    suites.run_pytest(["-q", "-c", "/dev/null", "-p", "no:cacheprovider", sys.argv[1]], os.environ)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name
)
def test_what_an_interrupted_run_has_started_is_taken_down(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "test_slow.py"
    file.write_text(SLOW.format(folder=tmp_path))
    running = subprocess.Popen([sys.executable, "-c", RUN, str(file)], cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_until("it runs, or has ended", lambda: running.poll() is not None or (tmp_path / "up").exists(), 300)
    assert running.poll() is None
    running.send_signal(number)
    assert running.wait(300) == (-number if number == signal.SIGKILL else 130)
    wait_until("it is taken down", (tmp_path / "down").exists, 300)


def test_a_journal_is_of_the_files_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(suites, "PASSED", tmp_path / ".local" / "passed")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text(".local\n")
    (tmp_path / "program.py").write_text("1")
    first = suites.passed_file("full")
    first.write_text("a\n")
    assert suites.passed_file("full") == first
    (tmp_path / "program.py").write_text("2")
    assert suites.passed_file("full") != first
    assert not first.exists()


def test_what_make_was_given_is_not_handed_on_to_the_makes_of_tests() -> None:
    """`ARGS` of `make test-full` was: each `make up` below it took them for its own."""
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    makefile = f"ARGS ?=\nSTACK ?= dev\nPYTHON ?= python3\nall:\n\t@$(PYTHON) -c '{program}'\n"
    given = ["ARGS=-k x", "STACK=gpu", "PYTHON=" + sys.executable]
    made = subprocess.run(
        ["make", "-f", "-", *given], input=makefile, capture_output=True, text=True, check=True
    )
    handed_on = json.loads(made.stdout)
    assert {"ARGS", "STACK", "PYTHON", "MAKEFLAGS", "MAKELEVEL"} <= set(handed_on)
    kept = suites.without_make(handed_on)
    assert set(handed_on) - set(kept) >= {"ARGS", "STACK", "MAKEFLAGS", "MAKELEVEL"}
    assert kept["PYTHON"] == sys.executable
    assert kept["PATH"] == handed_on["PATH"]
