"""The rounds of a search: every trial once, whatever happens meanwhile. The real study is tried in tests/sweep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolchain.sweep.played import EPOCHS, JOB, KilledError, PlayedStack, PlayedStudy, World
from toolchain.steps import SetupError
from toolchain.sweep import rounds, trials
from toolchain.sweep.trials import Answer, Trial, observe

PLAN = {"trials": 5, "parallel": 2}
CALLS = 60
"""More than a search of five trials makes."""


def world(folder: Path, **changes: Any) -> World:
    return World(folder, {**PLAN, **changes.pop("plan", {})}, **changes)


def begin(found: World, most: int = 100) -> Answer:
    """`make sweep`, as a process of its own; the cluster works while it pauses."""
    pauses = iter(range(most))

    def pause() -> None:
        next(pauses)
        found.called()
        found.work()

    return rounds.search(found.asked, PlayedStudy(found), PlayedStack(found), found.said.append, pause)


def states(answer: Answer) -> dict[int, str]:
    return {each.number: each.state for each in answer.trials}


def test_all_trials_run_so_many_at_once(tmp_path: Path) -> None:
    found = world(tmp_path)
    answer = begin(found)
    assert set(states(answer).values()) == {trials.COMPLETE}
    assert len(answer.trials) == PLAN["trials"]
    assert max(map(len, found.submissions)) == PLAN["parallel"]
    assert found.submissions[0] == [], "the stack is brought up first"
    assert found.jobs == {}, "nothing is left in the stack"
    assert answer.best == 0
    assert [each.run for each in answer.trials] == [f"{JOB}{number}-0a1b2c3d" for number in range(5)]


def test_a_place_that_gets_free_is_taken_at_once(tmp_path: Path) -> None:
    found = world(tmp_path, poor=frozenset({0}))
    begin(found)
    assert found.submissions[1:3] == [[0, 1], [1, 2]]


def test_a_poor_trial_is_given_up_and_its_job_deleted(tmp_path: Path) -> None:
    found = world(tmp_path, poor=frozenset({1, 3}))
    answer = begin(found)
    assert [number for number, state in states(answer).items() if state == trials.PRUNED] == [1, 3]
    assert found.trained[f"{JOB}1-0a1b2c3d"] == [1], "it trained no further epoch"
    assert "trial 1: given up after epoch 1, accuracy=0.5900 with lr=0.1" in found.said


def test_a_failed_trial_is_one_and_the_others_go_on(tmp_path: Path) -> None:
    found = world(tmp_path, fails=frozenset({0, 2}))
    answer = begin(found)
    assert [number for number, state in states(answer).items() if state == trials.FAILED] == [0, 2]
    assert answer.best == 1
    place = found.said.index("trial 0: failed, accuracy=0.6000 with lr=0.0")
    assert found.said[place + 1] == f"    Traceback of {JOB}0-0a1b2c3d"


def test_a_search_whose_trials_all_fail_ends(tmp_path: Path) -> None:
    found = world(tmp_path, plan={"trials": 50}, fails=frozenset(range(50)))
    with pytest.raises(SetupError, match="trials failed, and no trial succeeded") as refused:
        begin(found)
    assert "run the same command to continue" in refused.value.fix
    assert len([each for each in found.study if each.state == trials.FAILED]) <= rounds.MOST_FAILED + 1


def test_a_failure_that_is_proposed_again_and_again_is_one(tmp_path: Path) -> None:
    """The other trial that runs meanwhile comes to its end."""
    found = world(tmp_path, fails=frozenset({0}), repeats=frozenset({2, 3, 4}))
    answer = begin(found)
    assert states(answer) == {0: "fail", 1: "complete", 2: "fail", 3: "fail", 4: "fail"}
    assert answer.best == 1


@pytest.mark.parametrize("call", range(1, CALLS))
def test_a_search_killed_anywhere_goes_on_and_nothing_trains_twice(tmp_path: Path, call: int) -> None:
    found = world(tmp_path, poor=frozenset({3}), fails=frozenset({1}), kill_at=call)
    try:
        begin(found)
        ended_before_it = True
    except KilledError:
        ended_before_it = False
    assert ended_before_it == (found.calls < call)
    found.kill_at = None
    found.work()  # the cluster knows nothing of a kill
    answer = begin(found)
    assert states(answer) == {0: "complete", 1: "fail", 2: "complete", 3: "pruned", 4: "complete"}
    assert found.jobs == {}
    for run, epochs in found.trained.items():
        assert epochs == sorted(set(epochs)), f"{run} trained an epoch twice"
    assert len(found.trained) == PLAN["trials"]


def test_the_kills_walk_over_a_whole_search(tmp_path: Path) -> None:
    found = world(tmp_path, poor=frozenset({3}), fails=frozenset({1}))
    begin(found)
    assert found.calls < CALLS


def test_what_ended_while_nobody_looked_is_told_by_the_volume(tmp_path: Path) -> None:
    """No job is made again for it, though its own is gone from the cluster."""
    found = world(tmp_path, kill_at=20)
    with pytest.raises(KilledError):
        begin(found)
    under_way = [each.number for each in found.study if each.state == trials.RUNNING]
    assert under_way
    for _ in range(EPOCHS):
        found.work()
    submitted = len(found.submissions)
    begin(found)
    assert not set(under_way) & {number for each in found.submissions[submitted:] for number in each}


def test_a_search_that_is_over_touches_nothing(tmp_path: Path) -> None:
    found = world(tmp_path)
    first = begin(found)
    submitted = len(found.submissions)
    assert begin(found) == first
    assert len(found.submissions) == submitted


def test_more_trials_go_on_with_the_same_search(tmp_path: Path) -> None:
    found = world(tmp_path)
    begin(found)
    found.plan["trials"] = 7
    answer = begin(found)
    assert len(answer.trials) == 7
    assert len(found.trained) == 7


@pytest.mark.parametrize("deleted", [{1}, {1, 3, 5}], ids=["once", "now and then"])
def test_a_job_that_somebody_deletes_is_made_again_each_time_and_goes_on(
    tmp_path: Path, deleted: set[int]
) -> None:
    found = world(tmp_path, plan={"parallel": 1, "trials": 1})
    paused = []

    def pause() -> None:
        paused.append(1)
        if len(paused) == 1 or len(paused) > max(deleted):
            found.work()
        if len(paused) in deleted:
            found.jobs.clear()

    rounds.search(found.asked, PlayedStudy(found), PlayedStack(found), found.said.append, pause)
    assert found.submissions == [[], *[[0]] * (1 + len(deleted)), []]
    assert found.trained == {f"{JOB}0-0a1b2c3d": [1, 2, 3]}


def test_a_job_that_is_missing_still_when_it_was_made_again_ends_the_search(tmp_path: Path) -> None:
    found = world(tmp_path, plan={"parallel": 2, "trials": 2}, never_made=frozenset({1}))
    with pytest.raises(SetupError, match=f"no job for {JOB}1") as refused:
        begin(found)
    assert found.submissions == [[], [0, 1], [0, 1]]
    assert f"kubectl get {found.asked.resource}" in refused.value.fix


def test_a_cluster_that_does_not_answer_for_a_while_is_said_and_waited_for(tmp_path: Path) -> None:
    silent = frozenset({2, 3, 4, 6})
    found = world(tmp_path, silent=silent)
    answer = begin(found)
    assert set(states(answer).values()) == {trials.COMPLETE}
    assert found.brought_back == []
    assert len([each for each in found.said if "waits for it" in each]) == 2, "once for each silence"


def test_a_cluster_that_is_gone_is_brought_back(tmp_path: Path) -> None:
    found = world(tmp_path, silent=frozenset(range(2, 1000)), repairs=True)
    answer = begin(found)
    assert found.brought_back == [[0, 1]]
    assert found.rounds > rounds.MOST_SILENT
    assert set(states(answer).values()) == {trials.COMPLETE}
    assert "the stack is brought up again" in "\n".join(found.said)


def test_a_cluster_that_cannot_be_brought_back_ends_the_search(tmp_path: Path) -> None:
    found = world(tmp_path, silent=frozenset(range(2, 1000)))
    with pytest.raises(SetupError, match="even after `make up`") as refused:
        begin(found)
    assert found.brought_back == [[0, 1]]
    assert "run the same command to continue" in refused.value.fix


def test_a_search_whose_stack_is_taken_down_ends_at_once(tmp_path: Path) -> None:
    found = world(tmp_path)

    def pause() -> None:
        found.is_down = True
        found.jobs.clear()

    with pytest.raises(SetupError, match="the stack was taken down") as refused:
        rounds.search(found.asked, PlayedStudy(found), PlayedStack(found), found.said.append, pause)
    assert "run the same command to continue" in refused.value.fix
    assert found.submissions == [[], [0, 1]], "nothing is made again that was taken down"


# Condition of the job, None for no job that is known; whether the run has its model; epochs -> what it comes to.
OUTCOMES = [
    (None, False, 0, "running"),
    (None, False, 2, "running"),
    (None, True, 3, "succeeded"),
    ("Created", False, 0, "running"),
    ("Running", False, 2, "running"),
    ("Running", True, 3, "running"),  # it writes its report
    ("Suspended", False, 0, "running"),
    ("Restarting", False, 1, "running"),
    ("Succeeded", True, 3, "succeeded"),
    ("Succeeded", False, 3, "succeeded"),
    ("Succeeded", True, 0, "failed"),  # it told nothing to judge it by
    ("Failed", False, 2, "failed"),
    ("Failed", False, 0, "failed"),
]


@pytest.mark.parametrize(("condition", "has_model", "epochs", "outcome"), OUTCOMES)
def test_what_is_seen_of_a_trial(
    tmp_path: Path, condition: str | None, has_model: bool, epochs: int, outcome: str
) -> None:
    folder = tmp_path / "runs" / "r"
    folder.mkdir(parents=True)
    lines = [{"epoch": epoch, "accuracy": epoch / 10} for epoch in range(1, epochs + 1)]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    if has_model:
        (folder / "mnist_cnn.pt").touch()
    conditions = {f"{JOB}0": condition} if condition else {}
    seen = observe(world(tmp_path).asked, Trial(0, trials.RUNNING, {}), {f"{JOB}0": "r"}, conditions)
    assert (seen.outcome, seen.run) == (outcome, "r")
    assert seen.objective == tuple((epoch, epoch / 10) for epoch in range(1, epochs + 1))


# Of a file that a kill has torn, or that tells of steps between the epochs.
JOURNALS = {
    "": (),
    '{"step": 3, "loss": 0.4}\n': (),
    '{"epoch": 1, "accuracy": 0.5}\n{"epoch": 2, "acc': ((1, 0.5),),
    '{"epoch": 2, "accuracy": 0.5}\n{"epoch": 1, "accuracy": 0.4}\n': ((1, 0.4), (2, 0.5)),
    '{"epoch": 1, "accuracy": 0.4}\n{"epoch": 1, "accuracy": 0.5}\n': ((1, 0.5),),
    '{"epoch": 1, "accuracy": NaN}\n': (),
    '{"epoch": 1, "accuracy": null}\n': (),
}


@pytest.mark.parametrize("text", JOURNALS)
def test_the_objective_after_each_epoch(tmp_path: Path, text: str) -> None:
    (tmp_path / "runs" / "r").mkdir(parents=True)
    (tmp_path / "runs" / "r" / "metrics.jsonl").write_text(text)
    seen = observe(world(tmp_path).asked, Trial(0, trials.RUNNING, {}), {f"{JOB}0": "r"}, None)
    assert seen.objective == JOURNALS[text]


def test_a_trial_without_a_run_has_begun_nothing(tmp_path: Path) -> None:
    seen = observe(world(tmp_path).asked, Trial(0, trials.RUNNING, {}), {}, None)
    assert (seen.outcome, seen.run, seen.objective) == ("running", "", ())
