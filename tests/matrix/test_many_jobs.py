"""A matrix of jobs under the real Pulumi on a real API server; the operator is played by hand.

Each step is taken when the cluster shows the one before, so nothing depends on speed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from standins.tests.apiserver import ApiServer
from tests.e2e.waiting import wait_until
from tests.matrix.judging import uid
from tests.matrix.played_operator import BY_HAND, GROUP, PLURAL, VERSION, PlayedOperator, end_by_hand
from tests.matrix.project import AppliedProject, UpError, applied

NAMESPACE = "many"
FIVE = {
    "cluster.namespace": NAMESPACE,
    "matrix.options": {"training.seed": [1, 2, 3, 4, 5]},
    "matrix.maxParallel": 2,
    "job.labels": {BY_HAND: "true"},
}
THREE_EPOCHS = {"job.training": {"epochs": 3}}


@pytest.fixture
def project(
    api_server: ApiServer, operator: PlayedOperator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AppliedProject]:
    with applied(tmp_path_factory.mktemp("many"), api_server.kubeconfig, "many") as made:
        yield made


class Update:
    """`make up` with `changes`, under way, and the stack's jobs by their seeds."""

    def __init__(self, project: AppliedProject, pool: ThreadPoolExecutor, **changes: Any) -> None:
        self.project = project
        self.update: Future[str] = pool.submit(project.up, **changes)

    def jobs(self) -> dict[int, dict[str, Any]]:
        return _jobs(self.project)

    def await_jobs(self, *seeds: int) -> None:
        """Wait until these are there; none but these may be."""

        def are_there() -> bool:
            there = self.jobs()
            assert there.keys() <= set(seeds), f"{sorted(there)} where {seeds} may be"
            assert there.keys() == set(seeds) or not self.update.done(), self.update.exception()
            return there.keys() == set(seeds)

        wait_until(f"jobs {seeds} are there", are_there)

    def end(self, seed: int, word: str = "Succeeded") -> None:
        end_by_hand(self.project.jobs, NAMESPACE, f"mnist-seed-{seed}", word)


def test_so_many_run_at_once_and_a_failed_one_can_be_left_out(project: AppliedProject) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = Update(project, pool, **FIVE)
        try:
            first.await_jobs(1, 2)
            first.end(1)
            first.await_jobs(1, 2, 3)
            first.end(3)
            first.await_jobs(1, 2, 3, 5)
            first.end(2, "Failed")
            first.end(5)
            with pytest.raises(UpError, match="mnist-seed-2 failed"):
                first.update.result()
        finally:
            _end_all(first)
        before = first.jobs()
        assert 4 not in before, "it waits for the one that has failed"
        second = Update(project, pool, **FIVE, **{"matrix.exclude": [{"training.seed": 2}]})
        try:
            wait_until("job 4 is made", lambda: 4 in second.jobs() or second.update.done())
            second.end(4)
            second.update.result()
        finally:
            _end_all(second)
    after = second.jobs()
    assert sorted(after) == [1, 3, 4, 5]
    assert {seed: uid(after[seed]) for seed in (1, 3, 5)} == {seed: uid(before[seed]) for seed in (1, 3, 5)}
    told: dict[str, Any] = project.outputs()["jobs"]
    assert {name: each["jobStatus"] for name, each in told.items()} == {
        f"mnist-seed-{seed}": "Succeeded" for seed in (1, 3, 4, 5)
    }
    project.up("--expect-no-changes", **FIVE, **{"matrix.exclude": [{"training.seed": 2}]})


def test_all_that_run_are_waited_for(project: AppliedProject) -> None:
    """Pulumi's host of dynamic providers would wait for four, and look at another when one of them has ended."""
    at_once, seeds = 6, range(1, 13)
    many = {**FIVE, "matrix.options": {"training.seed": [*seeds]}, "matrix.maxParallel": at_once}
    with ThreadPoolExecutor(1) as pool:
        update = Update(project, pool, **many)
        try:
            there = {*range(1, at_once + 1)}
            update.await_jobs(*there)
            for seed in range(at_once, 0, -1):
                update.end(seed)
                there.add(seed + at_once)  # the one that has waited for it
                update.await_jobs(*there)
        finally:
            _end_all(update)
        update.update.result()


def test_a_changed_template_makes_all_anew_in_their_order(project: AppliedProject) -> None:
    """Each old job is deleted before its successor is made, though others wait for its run."""
    one_by_one: dict[str, Any] = {
        "cluster.namespace": NAMESPACE,
        "matrix.options": {"training.seed": [1, 2, 3]},
    }
    one_by_one["matrix.maxParallel"] = 1
    project.up(**one_by_one)
    before = _jobs(project)
    project.up(**one_by_one, **THREE_EPOCHS)
    after = _jobs(project)
    assert before.keys() == after.keys() == {1, 2, 3}
    assert not {uid(each) for each in before.values()} & {uid(each) for each in after.values()}
    made = [each["metadata"]["creationTimestamp"] for _, each in sorted(after.items())]
    assert made == sorted(made)
    assert project.job_specs(**one_by_one, **THREE_EPOCHS) == {
        each["metadata"]["name"]: each["spec"] for each in after.values()
    }


def _jobs(project: AppliedProject) -> dict[int, dict[str, Any]]:
    found: Any = project.jobs.list_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL)
    return {int(each["metadata"]["name"].removeprefix("mnist-seed-")): each for each in found["items"]}


def _end_all(update: Update) -> None:
    """Else an update that a failed assertion leaves under way would wait for ever."""
    while not update.update.done():
        for seed, job in update.jobs().items():
            if "status" not in job:
                update.end(seed)
        time.sleep(0.3)
