"""`make sweep` around its rounds: what it refuses, asks of the study's process, and prints for the stack file."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.config import from_raw, sweep_trials
from infra.config.training import Dataset
from infra.job.pod import command_line
from infra.sweep import search
from tests.unit.toolchain.sweep.played import World
from toolchain import stack_files
from toolchain.operating import environment
from toolchain.paths import ROOT, STACKS
from toolchain.steps import SetupError
from toolchain.sweep import rounds, searching, trials
from toolchain.sweep.searching import LOCK, MODULE, KeptStudy
from toolchain.sweep.trials import Answer, Observed, Search, Trial
from toolchain.tools import venv

TOLD: dict[str, Any] = {
    "name": "sweep",
    "job": "mnist-sweep-",
    "namespace": "kubeflow",
    "resource": "pytorchjobs.v1.kubeflow.org",
    "metric": "accuracy",
    "objective": "accuracy",
    "study": {"trials": 3},
}
BEST = Trial(0, "complete", {"training.lr": 0.1}, 0.9, 1, "mnist-sweep-0-0a1b2c3d")
ANSWER = Answer((BEST, Trial(1, "running", {"training.lr": 0.2})), 0)


class _Study:
    def __init__(self, *_: Any) -> None:
        """Nothing."""

    def exchange(self, observed: object, *, proposes: bool) -> Answer:
        return ANSWER


@pytest.fixture
def clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Folders of its own, with everything that takes time left out."""
    monkeypatch.setattr(searching, "FILES", tmp_path / "sweep")
    monkeypatch.setattr(searching, "MODELS", tmp_path / "models")
    monkeypatch.setattr(venv, "ensure", lambda: tmp_path)
    monkeypatch.setattr(stack_files, "names", lambda: ["dev"])
    monkeypatch.setattr(environment, "is_protected", lambda stack: False)
    folder = tmp_path / "models" / "dev" / "sweep"
    monkeypatch.setattr(searching, "search", lambda stack: Search(folder=folder, **TOLD))
    monkeypatch.setattr(searching, "python_with_optuna", lambda: tmp_path / "python")
    monkeypatch.setattr(searching, "KeptStudy", _Study)
    monkeypatch.setattr(rounds, "search", lambda *_: Answer((BEST,), 0))
    return tmp_path


def test_it_says_where_it_stands_and_ends_with_the_best(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    searching.sweep("dev")
    said = capsys.readouterr()
    assert "1 of 3 trials are done, 1 under way" in said.err
    assert said.out.endswith("      lr: 0.1\n")
    assert f"{STACKS.name}/Pulumi.dev.yaml" in said.out
    assert (clone / "models" / "dev" / "sweep").is_dir()


def test_a_protected_stack_is_refused(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "is_protected", lambda stack: True)
    with pytest.raises(SetupError, match="dev is protected") as refused:
        searching.sweep("dev")
    assert "make promote" in refused.value.fix


def test_two_searches_of_one_stack_are_refused(clone: Path) -> None:
    with (
        searching.held("dev"),
        searching.held("gpu"),
        pytest.raises(SetupError, match="another `make sweep` works on stack dev"),
    ):
        searching.sweep("dev")
    searching.sweep("dev")


@pytest.mark.parametrize(("user", "mode"), [(0, 0o2775), (1000, 0o1777)])
def test_pods_may_write_into_the_folder(
    clone: Path, monkeypatch: pytest.MonkeyPatch, user: int, mode: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    folder = clone / "models" / "dev" / "sweep"
    searching.make_folder(folder)
    assert folder.stat().st_mode & 0o7777 == mode
    folder.chmod(0o755)
    searching.make_folder(folder)
    assert folder.stat().st_mode & 0o7777 == 0o755, "what is there is the user's"


def test_a_folder_that_cannot_be_written_is_named(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(SetupError, match="cannot write into") as refused:
        searching.make_folder(clone / "models" / "dev" / "sweep")
    assert "sudo chmod o+w" in refused.value.fix
    (clone / "models" / "gpu").write_text("a file")
    with pytest.raises(SetupError, match="cannot be created"):
        searching.make_folder(clone / "models" / "gpu" / "sweep")


def test_what_the_stack_file_asks_for_is_read_and_what_is_wrong_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stack_files, "STACKS", tmp_path)
    monkeypatch.setattr(venv, "ensure", lambda: tmp_path)
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(
        "config:\n  trainstack:job: {name: mnist}\n  trainstack:sweep: {options: {training.lr: [0.1, 0.2]}}\n"
    )
    found = searching.search("dev")
    assert (found.job, found.folder.parts[-2]) == ("mnist-sweep-", "dev")
    file.write_text("config:\n  trainstack:job: {name: mnist}\n")
    with pytest.raises(SetupError, match=r"trainstack:sweep = \(absent\)"):
        searching.search("dev")


STUDY = {
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


def study(folder: Path, answer: object = STUDY, status: int = 0) -> KeptStudy:
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
    with pytest.raises(SetupError, match="other options, or another training") as refused:
        study(tmp_path, {"error": "another search"}).exchange([], proposes=True)
    assert "change sweep.name" in refused.value.fix
    assert str(tmp_path / "sweep" / "sweep.journal") in refused.value.fix


def test_an_error_of_it_is_shown_and_the_study_is_let_alone(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"ended with status 1, .*no space left") as refused:
        study(tmp_path, status=1).exchange([], proposes=True)
    assert "run the same command to continue" in refused.value.fix
    assert "journal" not in str(refused.value), "nobody is to touch it"


def test_a_process_that_was_killed_says_so(tmp_path: Path) -> None:
    found = study(tmp_path)
    found.python.write_text("#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(SetupError, match="ended with signal 9") as refused:
        found.exchange([], proposes=True)
    assert "journal" not in str(refused.value)


def test_a_file_that_is_no_study_is_to_be_moved_aside(tmp_path: Path) -> None:
    found = study(tmp_path, {"error": "unreadable", "text": "JSONDecodeError: line 1"})
    with pytest.raises(SetupError, match=r"not a journal of Optuna: JSONDecodeError: line 1") as refused:
        found.exchange([], proposes=True)
    file = tmp_path / "sweep" / "sweep.journal"
    assert f"mv {file} {file}.old" in refused.value.fix


def test_its_packages_are_locked_and_its_module_is_there() -> None:
    assert "optuna==" in LOCK.read_text()
    assert (ROOT / Path(*MODULE.split("."))).with_suffix(".py").is_file()
    assert venv.LOCK != LOCK


VALUES = {"training.lr": 0.0123, "training.batchSize": 64}
FILE = Path("stacks/Pulumi.dev.yaml")


def lines(*found: Trial, best: int | None) -> list[str]:
    return searching.conclusion(World(Path(), {}).asked, Answer(found, best), FILE)


def test_the_best_is_told_with_what_to_write_for_it() -> None:
    shown = lines(
        Trial(0, trials.FAILED, {"training.lr": 1.0, "training.batchSize": 32}),
        Trial(1, trials.COMPLETE, VALUES, 0.99123, 3, "mnist-sweep-1-0a1b2c3d"),
        Trial(2, trials.PRUNED, VALUES, 0.5, 1, "r"),
        best=1,
    )
    assert shown[:3] == [
        "search sweep: 3 trials: 1 complete, 1 given up, 1 failed",
        "best: trial 1, run mnist-sweep-1-0a1b2c3d",
        "accuracy=0.9912",
    ]
    assert str(FILE) in shown[3]
    written = yaml.safe_load("\n".join(shown[4:]))
    assert written == {"trainstack:job": {"training": {"batchSize": 64, "lr": 0.0123}}}
    job = {"name": "mnist", **written["trainstack:job"]}
    assert from_raw("dev", {"job": job}, str(FILE)).jobs[0].training.lr == 0.0123


def test_the_lines_train_as_the_trial_did_on_the_digits() -> None:
    """Searched epochs count in place of digitsEpochs."""
    raw: dict[str, Any] = {
        "job": {"name": "mnist", "training": {"dataset": "auto", "epochs": 1, "digitsEpochs": 12}},
        "sweep": {"options": {"training.epochs": [3, 5]}},
    }
    stack = from_raw("dev", raw, str(FILE))
    assert stack.sweep
    values: dict[str, float] = {"training.epochs": 5}
    trial = sweep_trials.job(stack.jobs[0], stack.sweep, "/models", stack.file, sweep_trials.Trial(1, values))
    asked = replace(World(Path(), {}).asked, replaced=search.search(stack)["replaced"])
    best = Trial(1, trials.COMPLETE, values, 0.9, 5, "mnist-sweep-1-0a1b2c3d")
    shown = searching.conclusion(asked, Answer((best,), 1), FILE)
    raw["job"]["training"] |= yaml.safe_load("\n".join(shown[4:]))["trainstack:job"]["training"]
    written = from_raw("dev", raw, str(FILE)).jobs[0]
    for dataset in (Dataset.DIGITS, Dataset.MNIST):
        assert command_line(written, dataset) == command_line(trial, dataset)


def test_without_a_complete_trial_none_is_the_best() -> None:
    shown = lines(Trial(0, trials.FAILED, VALUES), best=None)
    assert shown == ["search sweep: 1 trials: 1 failed", searching.NOTHING]


def test_a_line_of_a_trial_that_told_nothing_has_no_figure() -> None:
    asked = World(Path(), {}).asked
    assert (
        rounds.line(asked, Trial(5, trials.FAILED, VALUES)) == "trial 5: failed, with batchSize=64, lr=0.0123"
    )
