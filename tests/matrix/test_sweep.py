"""A search under the real Pulumi on a real API server, with a real study; operator and trainer are played.

While the search pauses, each of its jobs trains an epoch: its line is written where the search reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from infra.config import from_raw
from infra.sweep import search
from standins.tests.apiserver import ApiServer
from tests.e2e.waiting import wait_until
from tests.matrix.played_operator import BY_HAND, GROUP, PLURAL, VERSION, PlayedOperator, end_by_hand
from tests.matrix.project import AppliedProject, applied, with_changes
from toolchain.sweep import rounds, searching
from toolchain.sweep.searching import KeptStudy
from toolchain.sweep.trials import Search, Trial

NAMESPACE = "sweep"
CHANGES: dict[str, Any] = {
    "cluster.namespace": NAMESPACE,
    "job.labels": {BY_HAND: "true"},
    "sweep.options": {"training.lr": {"min": 0.001, "max": 0.3, "log": True}},
    "sweep.trials": 6,
    "sweep.parallel": 2,
}
OWN = "mnist"


class KilledError(BaseException):
    """SIGKILL."""


@pytest.fixture
def project(
    api_server: ApiServer, operator: PlayedOperator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AppliedProject]:
    with applied(tmp_path_factory.mktemp("sweep"), api_server.kubeconfig, "sweep") as made:
        yield made
        made.environment.pop(agreed.TRIALS, None)


class Applied:
    """The trials' jobs in a stack of the test's, by whole updates, and what the cluster does meanwhile."""

    def __init__(self, project: AppliedProject, asked: Search, file: Path) -> None:
        self.project, self.asked, self.file = project, asked, file
        self.is_up = False

    def submit(self, wanted: Sequence[Trial]) -> None:
        told = {
            "stack": "sweep",
            "job": self.asked.job,
            "identity": self.asked.study["identity"],
            "trials": [each.proposal() for each in wanted],
        }
        self.file.write_text(json.dumps(told))
        self.project.environment[agreed.TRIALS] = str(self.file)
        if self.is_up:
            self.project.apply()
        else:
            self._bring_up()
        self.is_up = True

    def bring_back(self, wanted: Sequence[Trial]) -> None:
        raise AssertionError("the API server answers all the time")

    def is_down(self) -> bool:
        raise AssertionError("the API server answers all the time")

    def _bring_up(self) -> None:
        """The stack's own job is waited for, and so has to end meanwhile; a trial is not."""
        with ThreadPoolExecutor(1) as pool:
            update = pool.submit(self.project.apply)
            wait_until("the stack's job is there", lambda: update.done() or self._has_own())
            if self._has_own():
                self.end(OWN, "Succeeded")
            update.result()

    def _has_own(self) -> bool:
        return OWN in self._all()

    def _all(self) -> dict[str, dict[str, Any]]:
        found: Any = self.project.jobs.list_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL)
        return {each["metadata"]["name"]: each for each in found["items"]}

    def jobs(self) -> dict[str, dict[str, Any]]:
        """The trials' jobs in the cluster, by name."""
        return {name: job for name, job in self._all().items() if name.startswith(self.asked.job)}

    def runs(self) -> Mapping[str, str]:
        return {name: job["metadata"]["labels"]["trainstack/run"] for name, job in self.jobs().items()}

    def conditions(self) -> Mapping[str, str] | None:
        if not self.is_up:
            return None
        return {
            name: (job.get("status", {}).get("conditions") or [{"type": "Pending"}])[-1]["type"]
            for name, job in self.jobs().items()
        }

    def last_lines(self, run: str) -> list[str]:
        return []

    def end(self, name: str, word: str) -> None:
        end_by_hand(self.project.jobs, NAMESPACE, name, word)

    def work(self) -> None:
        """An epoch of every job that runs."""
        for job in self.jobs().values():
            if "status" not in job:
                self._train(job)

    def _train(self, job: dict[str, Any]) -> None:
        folder = self.asked.folder / "runs" / job["metadata"]["labels"]["trainstack/run"]
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "metrics.jsonl"
        epoch = file.read_text().count("\n") + 1 if file.exists() else 1
        with file.open("a") as opened:
            opened.write(json.dumps({"epoch": epoch, "accuracy": 0.8}) + "\n")


def asked_of(stack_file: Path, folder: Path) -> Search:
    """The search of the stack file; its cluster is no kind cluster, whose volume it would ask for."""
    stack = from_raw("sweep", with_changes(CHANGES), str(stack_file))
    return Search(
        name="sweep",
        job=f"{OWN}-sweep-",
        namespace=NAMESPACE,
        resource="pytorchjobs.v1.kubeflow.org",
        metric="accuracy",
        objective="accuracy",
        folder=folder,
        study=search.study(stack),
    )


def killed(applied: Applied, most: int) -> None:
    """`make sweep` as a process of its own, which is killed after `most` pauses."""
    pauses = iter(range(most))

    def pause() -> None:
        if next(pauses, None) is None:
            raise KilledError
        applied.work()

    study = KeptStudy(applied.asked, searching.python_with_optuna())
    with pytest.raises(KilledError):
        rounds.search(applied.asked, study, applied, print, pause)


def test_make_up_in_the_midst_of_a_search_takes_the_trials_away_and_the_search_makes_them_again(
    project: AppliedProject, tmp_path: Path
) -> None:
    project.configured(**CHANGES)
    asked = asked_of(project.stack_file, tmp_path / "sweep")
    asked.folder.mkdir()
    applied = Applied(project, asked, tmp_path / "trials.json")
    killed(applied, most=1)
    runs, (own,) = applied.runs(), project.job_specs(**CHANGES).values()
    for job in applied.jobs().values():
        (container,) = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
        env = {each["name"]: each["value"] for each in container["env"]}
        assert env["TRAINER_MODEL_DIR"].endswith("/sweep")
        assert any(word.startswith("--lr") for word in container["args"])
        assert job["spec"]["runPolicy"] == own["runPolicy"]
    del project.environment[agreed.TRIALS]
    project.apply()
    assert applied.jobs() == {}
    killed(applied, most=0)
    assert applied.runs() == runs, "they go on with their runs"
