"""The study's process: what it is asked, and what comes of its errors. The real one is tried in tests/sweep."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.unit.toolchain.sweep.played import World
from toolchain.paths import ROOT
from toolchain.steps import SetupError
from toolchain.sweep.searching import LOCK, MODULE, KeptStudy
from toolchain.sweep.trials import Observed, Trial
from toolchain.tools import venv

ANSWER = {
    "trials": [
        {
            "number": 0,
            "state": "running",
            "values": {"training.lr": 0.1},
            "objective": None,
            "epoch": None,
            "run": "",
        }
    ],
    "best": None,
}
PLAN = {"identity": "0a", "trials": 3, "parallel": 1}


def study(folder: Path, answer: object = ANSWER, status: int = 0) -> KeptStudy:
    """Its process writes down what it was given, and says `answer`."""
    program = folder / "python"
    text = f"""#!{sys.executable}
import sys
with open({str(folder / "asked")!r}, "a") as file:
    file.write(" ".join(sys.argv[1:]) + " " + sys.stdin.read() + "\\n")
print({json.dumps(answer)!r})
print("no space left", file=sys.stderr)
sys.exit({status})
"""
    program.write_text(text)
    program.chmod(0o755)
    return KeptStudy(World(folder / "sweep", PLAN).asked, program)


def asked(folder: Path) -> list[str]:
    return (folder / "asked").read_text().splitlines()


def test_it_is_asked_with_the_plan_and_what_was_observed(tmp_path: Path) -> None:
    found = study(tmp_path)
    answer = found.exchange([Observed(0, "running", "r", ((1, 0.5),))], proposes=True)
    assert answer.trials == (Trial(0, "running", {"training.lr": 0.1}),)
    (line,) = asked(tmp_path)
    option, module, request = line.split(" ", 2)
    assert (option, module) == ("-m", MODULE)
    assert json.loads(request) == {
        **PLAN,
        "journal": str(tmp_path / "sweep" / "sweep.journal"),
        "proposes": True,
        "observed": [{"number": 0, "outcome": "running", "run": "r", "objective": [[1, 0.5]]}],
    }


def test_it_is_not_asked_again_where_nothing_has_happened(tmp_path: Path) -> None:
    found = study(tmp_path)
    for objective in ((), (), ((1, 0.5),), ((1, 0.5),)):
        found.exchange([Observed(0, "running", "r", objective)], proposes=True)
    assert len(asked(tmp_path)) == 2


def test_another_search_of_the_same_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="other options, another training") as refused:
        study(tmp_path, {"error": "another search"}).exchange([], proposes=True)
    assert "another name" in refused.value.fix
    assert str(tmp_path / "sweep" / "sweep.journal") in refused.value.fix


def test_an_error_of_it_is_shown_and_the_study_is_let_alone(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"ended with status 1, .*no space left") as refused:
        study(tmp_path, status=1).exchange([], proposes=True)
    assert "the same command goes on" in refused.value.fix
    assert "journal" not in str(refused.value), "nobody is to touch it"


def test_a_process_that_was_killed_says_so(tmp_path: Path) -> None:
    found = study(tmp_path)
    found.python.write_text("#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(SetupError, match="ended with signal 9") as refused:
        found.exchange([], proposes=True)
    assert "journal" not in str(refused.value)


def test_a_file_that_is_no_study_is_to_be_moved_aside(tmp_path: Path) -> None:
    found = study(tmp_path, {"error": "unreadable", "text": "JSONDecodeError: line 1"})
    with pytest.raises(SetupError, match=r"no journal of Optuna's: JSONDecodeError: line 1") as refused:
        found.exchange([], proposes=True)
    file = tmp_path / "sweep" / "sweep.journal"
    assert f"mv {file} {file}.old" in refused.value.fix


def test_its_packages_are_locked_and_its_module_is_there() -> None:
    assert "optuna==" in LOCK.read_text()
    assert (ROOT / Path(*MODULE.split("."))).with_suffix(".py").is_file()
    assert venv.LOCK != LOCK
