"""The study of a search with a real Optuna: what it proposes, gives up and keeps, whatever kills it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolchain.sweep.played import KilledError, PlayedStack, World
from toolchain.paths import ROOT
from toolchain.steps import SetupError
from toolchain.sweep import rounds, searching, trials
from toolchain.sweep.searching import KeptStudy
from toolchain.sweep.trials import Answer, Observed

OPTIONS = {
    "training.lr": {"low": 0.001, "high": 0.3, "log": True, "whole": False},
    "training.epochs": {"low": 1, "high": 9, "log": False, "whole": True},
    "training.batchSize": {"values": [32, 64]},
}
PLAN: dict[str, Any] = {
    "identity": "0a1b",
    "direction": "maximize",
    "options": OPTIONS,
    "epochs": None,
    "trials": 6,
    "parallel": 2,
    "prune": True,
    "seed": 0,
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, dict(PLAN))


def study(world: World, optuna: Path) -> KeptStudy:
    """As a new process has it."""
    return KeptStudy(world.asked, optuna)


def ended(found: Answer, outcome: str, value: float) -> list[Observed]:
    return [Observed(each.number, outcome, "r", ((1, value),)) for each in found.in_state(trials.RUNNING)]


def test_proposals_are_within_their_ranges_differ_and_are_kept(world: World, optuna: Path) -> None:
    world.plan |= {"trials": 8, "parallel": 8}
    found = study(world, optuna).exchange([], proposes=True)
    values = [each.values for each in found.trials]
    assert len({json.dumps(each) for each in values}) == 8
    for each in values:
        assert 0.001 <= each["training.lr"] <= 0.3
        assert each["training.lr"] == float(f"{each['training.lr']:.4g}"), "people read it"
        assert each["training.epochs"] in range(1, 10)
        assert each["training.batchSize"] in (32, 64)
    assert study(world, optuna).exchange([], proposes=True) == found


def test_each_process_proposes_something_new(world: World, optuna: Path) -> None:
    world.plan["parallel"] = 1
    found = study(world, optuna).exchange([], proposes=True)
    for _ in range(5):
        found = study(world, optuna).exchange(ended(found, "succeeded", 0.5), proposes=True)
    assert len({each.values["training.lr"] for each in found.trials}) == 6


def test_the_same_seed_proposes_the_same(tmp_path: Path, optuna: Path) -> None:
    found = []
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        (tmp_path / name).mkdir()
        made = World(tmp_path / name, {**PLAN, "seed": seed})
        found.append([each.values for each in study(made, optuna).exchange([], proposes=True).trials])
    assert found[0] == found[1] != found[2]


def test_neighbouring_seeds_do_not_repeat_each_other(tmp_path: Path, optuna: Path) -> None:
    rates: list[set[float]] = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        made = World(folder, {**PLAN, "seed": seed, "parallel": 1})
        found = study(made, optuna).exchange([], proposes=True)
        for _ in range(3):
            found = study(made, optuna).exchange(ended(found, "succeeded", 0.5), proposes=True)
        rates.append({each.values["training.lr"] for each in found.trials})
    assert not rates[0] & rates[1]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("direction", "poor", "good"), [("maximize", 0.2, 0.9), ("minimize", 0.9, 0.2)])
def test_a_trial_worse_than_the_median_is_given_up(
    world: World, optuna: Path, direction: str, poor: float, good: float
) -> None:
    world.plan |= {"direction": direction, "parallel": 3, "epochs": 3}
    found = study(world, optuna).exchange([], proposes=True)
    found = study(world, optuna).exchange(ended(found, "succeeded", 0.5), proposes=True)
    bad, better, last = found.in_state(trials.RUNNING)
    seen = [
        Observed(bad.number, "running", "r", ((1, poor),)),
        Observed(better.number, "running", "r", ((1, good),)),
    ]
    world.plan["prune"] = False
    assert len(study(world, optuna).exchange(seen, proposes=False).in_state(trials.RUNNING)) == 3
    world.plan["prune"] = True
    found = study(world, optuna).exchange(seen, proposes=False)
    assert [each.number for each in found.in_state(trials.PRUNED)] == [bad.number]
    assert {each.number for each in found.in_state(trials.RUNNING)} == {better.number, last.number}
    (given_up,) = found.in_state(trials.PRUNED)
    assert (given_up.objective, given_up.epoch, given_up.run) == (poor, 1, "r")


# What says how many epochs a trial has, and what the poor trial's option has then.
LAST_EPOCHS = [(2, 9), ("training.epochs", 2), (None, 9)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("epochs", "option"), LAST_EPOCHS)
def test_no_trial_is_given_up_after_its_last_epoch(
    world: World, optuna: Path, epochs: int | str | None, option: int
) -> None:
    """Nothing would be saved by that, and what it came to would be lost."""
    values = {"low": option, "high": option, "log": False, "whole": True}
    world.plan |= {"options": {**OPTIONS, "training.epochs": values}, "epochs": epochs, "parallel": 3}
    found = study(world, optuna).exchange([], proposes=True)
    good = [Observed(each.number, "succeeded", "r", ((1, 0.5), (2, 0.6))) for each in found.trials]
    poor, too, _ = study(world, optuna).exchange(good, proposes=True).in_state(trials.RUNNING)
    seen = [
        Observed(poor.number, "running", "r", ((1, 0.2), (2, 0.3))),
        Observed(too.number, "running", "r", ((1, 0.2),)),
    ]
    found = study(world, optuna).exchange(seen, proposes=False)
    assert [each.number for each in found.in_state(trials.PRUNED)] == [too.number]
    ended = [Observed(poor.number, "succeeded", "r", ((1, 0.2), (2, 0.3)))]
    found = study(world, optuna).exchange(ended, proposes=False)
    assert [each.number for each in found.in_state(trials.COMPLETE)] == [0, 1, 2, poor.number]


def test_the_best_is_the_best_complete_one(world: World, optuna: Path) -> None:
    found = study(world, optuna).exchange([], proposes=True)
    assert found.best is None
    first, second = found.in_state(trials.RUNNING)
    seen = [
        Observed(first.number, "failed", "r", ((1, 0.99),)),
        Observed(second.number, "succeeded", "s", ((1, 0.9), (2, 0.5))),
    ]
    found = study(world, optuna).exchange(seen, proposes=True)
    assert found.best == second.number
    best = next(each for each in found.trials if each.number == found.best)
    assert (best.objective, best.run) == (0.5, "s"), "the last epoch counts"
    assert found.trials[first.number].objective == 0.99, "what is known of a failed one is told"


# In one process. The trial that began first ends, again and again: what ran at once meanwhile, and all trials at last.
REPEATED = """
import json, sys
from optuna.trial import TrialState
from infra.sweep import study
request = json.load(sys.stdin)
if request["outcome"] == "running":
    study._judge = lambda kept, number, epochs: kept.tell(number, state=TrialState.PRUNED)
found, rounds = study.exchange(request), []
while running := [each for each in found["trials"] if each["state"] == "running"]:
    rounds.append({each["number"]: each["values"]["training.batchSize"] for each in running})
    assert len(rounds) < 20
    number = running[0]["number"]
    seen = {"number": number, "outcome": request["outcome"], "run": f"r{number}", "objective": [[1, 0.5]]}
    found = study.exchange({**request, "observed": [seen]})
lines = len(open(request["journal"]).readlines())
study.exchange(request)
assert len(open(request["journal"]).readlines()) == lines
print(json.dumps([rounds, found["trials"]]))
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("outcome", "state"), [("succeeded", "complete"), ("failed", "fail"), ("running", "pruned")]
)
@pytest.mark.parametrize("parallel", [1, 4, 2, 3])
def test_what_was_proposed_before_with_the_same_values_is_not_trained_again(
    world: World, optuna: Path, outcome: str, state: str, parallel: int
) -> None:
    """Whatever has become of the trial before, or while it runs."""
    options = {"training.batchSize": {"values": [32, 64, 128]}}
    request = {**PLAN, "options": options, "parallel": parallel, "trials": 9, "outcome": outcome}
    request |= {"journal": str(searching.study_file(world.asked)), "proposes": True, "observed": []}
    command = [str(optuna), "-c", REPEATED]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    rounds, found = json.loads(done.stdout)
    trained = {number: value for each in rounds for number, value in each.items()}
    assert sorted(trained.values()) == sorted(set(trained.values()))
    assert max(map(len, rounds)) <= min(parallel, 3)
    assert [each["state"] for each in found] == [state] * 9
    assert {each["objective"] for each in found} == {0.5}
    if state != "fail":
        assert {each["run"] for each in found} == {f"r{number}" for number in trained}
    if state == "pruned":
        assert {each["epoch"] for each in found} == {1}


def test_nothing_is_asked_for_while_all_that_there_is_runs(world: World, optuna: Path) -> None:
    """Each look would write into the study else."""
    world.plan |= {"options": {"training.batchSize": {"values": [32, 64]}}, "parallel": 3}
    found = study(world, optuna).exchange([], proposes=True)
    assert {each.values["training.batchSize"] for each in found.in_state(trials.RUNNING)} == {32, 64}
    before = searching.study_file(world.asked).read_bytes()
    study(world, optuna).exchange([], proposes=True)
    assert searching.study_file(world.asked).read_bytes() == before


def test_what_is_told_twice_counts_once(world: World, optuna: Path) -> None:
    found = study(world, optuna).exchange([], proposes=True)
    seen = ended(found, "succeeded", 0.5)
    first = study(world, optuna).exchange(seen, proposes=False)
    other = [Observed(each.number, "failed", "x", ((1, 0.1),)) for each in seen]
    assert study(world, optuna).exchange(seen, proposes=False) == first
    assert study(world, optuna).exchange(other, proposes=False) == first


def test_another_search_does_not_touch_the_study(world: World, optuna: Path) -> None:
    study(world, optuna).exchange([], proposes=True)
    file = searching.study_file(world.asked)
    before = file.read_bytes()
    world.plan["identity"] = "other"
    with pytest.raises(SetupError, match="began with other options"):
        study(world, optuna).exchange([], proposes=True)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "text", ["not a study\n", "{}\n", "3\n", '{"op_code": 99}\n', '{"op_code": 4}\n', "\xff\n"]
)
def test_a_file_that_is_no_study_is_told_and_kept(world: World, optuna: Path, text: str) -> None:
    file = searching.study_file(world.asked)
    file.write_text(text * 3, encoding="latin-1")
    with pytest.raises(SetupError, match="not a journal of Optuna") as refused:
        study(world, optuna).exchange([], proposes=True)
    assert "rename that file" in refused.value.fix
    assert file.read_text(encoding="latin-1") == text * 3


def test_a_file_that_cannot_be_written_is_not_to_be_moved(world: World, optuna: Path) -> None:
    searching.study_file(world.asked).mkdir()
    with pytest.raises(SetupError, match="Is a directory") as refused:
        study(world, optuna).exchange([], proposes=True)
    assert "aside" not in refused.value.fix


def test_nothing_is_written_where_nothing_has_happened(world: World, optuna: Path) -> None:
    study(world, optuna).exchange([], proposes=True)
    before = searching.study_file(world.asked).read_bytes()
    study(world, optuna).exchange([], proposes=True)
    assert searching.study_file(world.asked).read_bytes() == before


# In one process: each of its own would take a second.
CUTS = """
import json, sys
from pathlib import Path
from infra.sweep.study import exchange
request = json.load(sys.stdin)
file = Path(request["journal"])

def observed(found, value):
    running = [each for each in found["trials"] if each["state"] == "running"]
    return [dict(number=each["number"], outcome="succeeded", run="r", objective=[[1, value]]) for each in running]

first = exchange(request)
exchange({**request, "observed": observed(first, 0.5)})
whole = file.read_bytes()
lines = whole.splitlines(keepends=True)
ends = [sum(map(len, lines[:count])) for count in range(len(lines) + 1)]
told = []
for cut in [*ends, *(end + 7 for end in ends[:-1])]:
    file.write_bytes(whole[:cut])
    before = exchange(request)
    told.append([before, exchange({**request, "proposes": False, "observed": observed(before, 0.4)})])
print(json.dumps(told))
"""


def test_a_study_that_a_kill_has_cut_anywhere_goes_on(world: World, optuna: Path) -> None:
    """Behind each line, and within each."""
    request = {**PLAN, "parallel": 1, "proposes": True, "observed": []}
    request["journal"] = str(searching.study_file(world.asked))
    command = [str(optuna), "-c", CUTS]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told) > 20
    for before, after in told:
        (running,) = [each for each in before["trials"] if each["state"] == "running"]
        assert running["values"].keys() == OPTIONS.keys()
        assert after["best"] is not None
        assert [each["state"] for each in after["trials"]] == ["complete"] * len(after["trials"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("call", [3, 21])
def test_a_whole_search_killed_meanwhile_trains_nothing_twice(
    tmp_path: Path, optuna: Path, call: int
) -> None:
    world = World(tmp_path, {**PLAN, "trials": 4}, fails=frozenset({1}), kill_at=call)

    def pause() -> None:
        world.called()
        world.work()

    def begin() -> Answer:
        return rounds.search(world.asked, study(world, optuna), PlayedStack(world), world.said.append, pause)

    with pytest.raises(KilledError):
        begin()
    world.kill_at = None
    found = begin()
    assert {each.number: each.state for each in found.trials if each.state != trials.PRUNED} == {
        0: "complete",
        1: "fail",
        2: "complete",
        3: "complete",
    }
    assert all(epochs == sorted(set(epochs)) for epochs in world.trained.values())
    assert found.best == 0
