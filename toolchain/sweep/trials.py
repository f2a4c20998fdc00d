"""The trials of a search, and observations of them on the volume and in the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from infra import agreed
from toolchain.runs import records

RUNNING, COMPLETE, PRUNED, FAILED = "running", "complete", "pruned", "fail"
TAKEN_DOWN = "the stack was taken down", "run the same command to continue"
"""The error of a search whose stack was taken down, and its fix."""


@dataclass(frozen=True)
class Search:
    """The search that the stack file asks for, from infra/sweep/search.py.

    Parameters:
        name: the name of the search.
        job: the beginning of its jobs' names.
        namespace: the namespace of its jobs.
        resource: the kind of its jobs, for kubectl.
        metric: the objective's key in metrics.jsonl.
        objective: the objective's name for users.
        folder: the folder of its studies and runs on this machine.
        study: the request to infra/sweep/study.py.
        replaced: key of the job, but no option of the search -> its value in the trials, instead of the stack file's.
    """

    name: str
    job: str
    namespace: str
    resource: str
    metric: str
    objective: str
    folder: Path
    study: dict[str, Any]
    replaced: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """One trial of the study.

    Parameters:
        number: its number in the study.
        state: RUNNING, COMPLETE, PRUNED or FAILED.
        values: key of the job -> the trial's value.
        objective: the last known value; None if unknown.
        epoch: the epoch of that value; None if unknown.
        run: its run; empty if it has not begun.
    """

    number: int
    state: str
    values: dict[str, float]
    objective: float | None = None
    epoch: int | None = None
    run: str = ""

    def proposal(self) -> dict[str, Any]:
        """The trial as the Pulumi program reads it."""
        return {"number": self.number, "values": self.values}


@dataclass(frozen=True)
class Answer:
    """The study's answer: all trials, and the number of the best, None before a trial is complete."""

    trials: tuple[Trial, ...]
    best: int | None

    def in_state(self, state: str) -> list[Trial]:
        """The trials in `state`."""
        return [each for each in self.trials if each.state == state]


@dataclass(frozen=True)
class Observed:
    """An observation of a running trial. `outcome`: running, succeeded or failed. `objective`: (epoch, value) pairs."""

    number: int
    outcome: str
    run: str
    objective: tuple[tuple[int, float], ...]


class Study(Protocol):
    """Stores the trials, judges them and proposes new ones."""

    def exchange(self, observed: Sequence[Observed], *, proposes: bool) -> Answer:
        """Send observations. With `proposes`, the study then starts as many trials as may run at once."""


class Stack(Protocol):
    """The stack with the jobs of trials. Each call may raise SetupError."""

    def submit(self, trials: Sequence[Trial]) -> None:
        """Let the stack have jobs for exactly these trials."""

    def bring_back(self, trials: Sequence[Trial]) -> None:
        """As `submit`, for a cluster that does not answer: the cluster is repaired first."""

    def is_down(self) -> bool:
        """Whether somebody has taken the stack down: its state has no resources."""

    def runs(self) -> Mapping[str, str]:
        """Job -> its run, for the jobs of the stack."""

    def conditions(self) -> Mapping[str, str] | None:
        """Job -> its condition, for the jobs in the cluster; None if unknown now."""

    def last_lines(self, run: str) -> list[str]:
        """The last log lines of the pods of `run`; none if the pods are gone."""


def observe(
    search: Search, trial: Trial, runs: Mapping[str, str], conditions: Mapping[str, str] | None
) -> Observed:
    """Observe `trial`. A run with its model has succeeded, even if its job is gone."""
    job = f"{search.job}{trial.number}"
    run = runs.get(job, "")
    folder = search.folder / "runs" / run
    there = records.read(folder) if run and folder.is_dir() else None
    objective = _objective(there, search.metric) if there else ()
    condition = (conditions or {}).get(job)
    outcome = "running"
    if condition == agreed.FAILED:
        outcome = "failed"
    elif condition == agreed.SUCCEEDED or (condition is None and there and there.model):
        outcome = "succeeded" if objective else "failed"
    return Observed(trial.number, outcome, run, objective)


def _objective(run: records.Run, metric: str) -> tuple[tuple[int, float], ...]:
    """The epochs of a run with the objective after each. If an epoch was trained twice, the last value counts."""
    found: dict[int, float] = {}
    for line in records.metrics(run):
        epoch, value = records.number(line.get("epoch")), records.number(line.get(metric))
        if epoch is not None and value is not None:
            found[int(epoch)] = value
    return tuple(sorted(found.items()))
