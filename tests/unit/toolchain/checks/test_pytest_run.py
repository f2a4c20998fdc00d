"""An interrupted suite takes down what it has started, and keeps a list of what passed for unchanged files alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolchain.checks import suites
from toolchain.paths import ROOT

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
    _wait_for(tmp_path / "up", running)
    running.send_signal(number)
    assert running.wait(300) == (-number if number == signal.SIGKILL else 130)
    _wait_for(tmp_path / "down")


def _wait_for(file: Path, running: subprocess.Popen[bytes] | None = None) -> None:
    deadline = time.monotonic() + 300
    while not file.exists():
        assert running is None or running.poll() is None
        assert time.monotonic() < deadline, f"there is no {file.name}"
        time.sleep(0.05)


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


def test_every_stage_runs_folders_that_there_are() -> None:
    for stages in suites.SUITES.values():
        for stage in stages:
            for folder in stage.folders:
                assert (ROOT / folder).exists(), folder


def test_every_test_is_in_a_suite() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*/test_*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    stages = [*suites.SUITES["full"], *suites.SUITES["bench"]]
    places = [*(folder for stage in stages for folder in stage.folders), "tests/trainer/inside"]
    assert [
        name for name in listed.stdout.split() if not any(Path(name).is_relative_to(each) for each in places)
    ] == []


def test_pytest_is_that_of_the_clone() -> None:
    assert suites.PYTHON.is_relative_to(ROOT)


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
