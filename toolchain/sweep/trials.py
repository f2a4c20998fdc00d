"""The trials of a search, and what is seen of them on the volume and in the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from infra import agreed
from toolchain.runs import records

RUNNING, COMPLETE, PRUNED, FAILED = "running", "complete", "pruned", "fail"
TAKEN_DOWN = "the stack was taken down", "the same command goes on"
"""What a search ends with then, and the fix."""


@dataclass(frozen=True)
class Search:
    """What the stack file asks for, as infra/sweep/search.py says it.

    Parameters:
        name: of the search.
        job: the beginning of its jobs' names.
        namespace: of its jobs.
        resource: their kind, as kubectl takes it.
        metric: the objective's key in metrics.jsonl.
        objective: how people call it.
        folder: that of its studies and runs on this machine.
        study: what infra/sweep/study.py is asked with.
        replaced: key of the job -> what trials have in place of the stack file's value, beside the options.
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
    """One trial, as the study has it.

    Parameters:
        number: its number in the study.
        state: RUNNING, COMPLETE, PRUNED or FAILED.
        values: key of the job -> what it trains with.
        objective: the last that is known; None where nothing is.
        epoch: after which that was; None where nothing is known.
        run: its run; empty where none has begun.
    """

    number: int
    state: str
    values: dict[str, float]
    objective: float | None = None
    epoch: int | None = None
    run: str = ""

    def proposal(self) -> dict[str, Any]:
        """As the program takes it."""
        return {"number": self.number, "values": self.values}


@dataclass(frozen=True)
class Answer:
    """What the study says: all trials, and which of them is the best, None before one is complete."""

    trials: tuple[Trial, ...]
    best: int | None

    def in_state(self, state: str) -> list[Trial]:
        """Those in `state`."""
        return [each for each in self.trials if each.state == state]


@dataclass(frozen=True)
class Observed:
    """What was seen of a running trial. `outcome`: running, succeeded or failed. `objective`: after each epoch."""

    number: int
    outcome: str
    run: str
    objective: tuple[tuple[int, float], ...]


class Study(Protocol):
    """Keeps the trials, judges and proposes."""

    def exchange(self, observed: Sequence[Observed], *, proposes: bool) -> Answer:
        """Hand over what was observed. With `proposes` there are as many running trials after it as may be."""


class Stack(Protocol):
    """Has the jobs of trials. Each call may raise SetupError."""

    def submit(self, trials: Sequence[Trial]) -> None:
        """Have the stack hold jobs for these trials, and for no others."""

    def bring_back(self, trials: Sequence[Trial]) -> None:
        """As `submit`, where the cluster does not answer: what it needs is started or made again first."""

    def is_down(self) -> bool:
        """Whether somebody has taken the stack down: its state holds nothing."""

    def runs(self) -> Mapping[str, str]:
        """Job -> its run, of the jobs that the stack holds."""

    def conditions(self) -> Mapping[str, str] | None:
        """Job -> its condition, of the jobs in the cluster; None where that cannot be told now."""

    def last_lines(self, run: str) -> list[str]:
        """What the pods of `run` have said last; nothing where they are gone."""


def observe(
    search: Search, trial: Trial, runs: Mapping[str, str], conditions: Mapping[str, str] | None
) -> Observed:
    """What is seen of `trial` now. A run that has its model has succeeded, though its job is gone."""
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
    """The epochs of a run with the objective after each; the last word counts on one that was trained twice."""
    found: dict[int, float] = {}
    for line in records.metrics(run):
        epoch, value = records.number(line.get("epoch")), records.number(line.get(metric))
        if epoch is not None and value is not None:
            found[int(epoch)] = value
    return tuple(sorted(found.items()))
