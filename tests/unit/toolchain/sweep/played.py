"""A search's study, stack and cluster, played: what lasts is in one world, and a kill ends everything else.

`World` counts the calls of the search, and kills it before or behind any of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from toolchain.sweep import trials
from toolchain.sweep.trials import Answer, Observed, Search, Trial

JOB = "mnist-sweep-"
EPOCHS = 3


class KilledError(BaseException):
    """SIGKILL."""


@dataclass
class Job:
    """A trial's job in the cluster. `epochs`: done so far, by this job or by one of the same run before it."""

    run: str
    condition: str = "Running"


@dataclass
class World:
    """What outlives a kill: volume, cluster, state, study.

    Parameters:
        folder: that of the runs.
        plan: what is asked of the study.
        objective: a trial's number and an epoch -> the objective after it.
        fails: numbers of the trials that fail after their first epoch.
        poor: numbers of the trials that the study gives up after their first epoch.
        repeats: numbers of the trials that have the values of trial 0, which has ended, and end as it has.
        never_made: numbers of the trials whose jobs the stack does not make.
        silent: rounds in which the cluster does not answer, counted from 1, and does not work.
        repairs: whether `make up` ends the silence.
        kill_at: the call at which the search is killed; None for never.
    """

    folder: Path
    plan: dict[str, Any]
    objective: Callable[[int, int], float] = lambda number, epoch: 0.5 + 0.1 * epoch - 0.01 * number
    fails: frozenset[int] = frozenset()
    poor: frozenset[int] = frozenset()
    repeats: frozenset[int] = frozenset()
    never_made: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()
    repairs: bool = False
    kill_at: int | None = None
    calls: int = 0
    rounds: int = 0
    is_down: bool = False
    brought_back: list[list[int]] = field(default_factory=list)
    study: list[Trial] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    trained: dict[str, list[int]] = field(default_factory=dict)
    submissions: list[list[int]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def asked(self) -> Search:
        return Search(
            name="sweep",
            job=JOB,
            namespace="kubeflow",
            resource="pytorchjobs.v1.kubeflow.org",
            metric="accuracy",
            objective="accuracy",
            folder=self.folder,
            study=self.plan,
        )

    def called(self) -> None:
        self.calls += 1
        if self.kill_at == self.calls:
            raise KilledError

    def work(self) -> None:
        """An epoch of every job that runs."""
        if self.rounds in self.silent:
            return
        for job in self.jobs.values():
            if job.condition == "Running":
                self._train(job)

    def _train(self, job: Job) -> None:
        number = int(job.run.removeprefix(JOB).partition("-")[0])
        folder = self.folder / "runs" / job.run
        folder.mkdir(parents=True, exist_ok=True)
        done = self.trained.setdefault(job.run, [])
        if number in self.fails and done:
            job.condition = "Failed"
            return
        if len(done) < EPOCHS:
            epoch = len(done) + 1
            done.append(epoch)
            line = {"epoch": epoch, "accuracy": self.objective(number, epoch), "test_loss": 1.0}
            with (folder / "metrics.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
        if len(done) == EPOCHS:
            (folder / "mnist_cnn.pt").touch()
            job.condition = "Succeeded"


class PlayedStudy:
    """As infra/sweep/study.py, but that it proposes the trial's number and gives up the `poor` ones."""

    def __init__(self, world: World) -> None:
        self.world = world

    def exchange(self, observed: Sequence[Observed], *, proposes: bool) -> Answer:
        self.world.called()
        for each in observed:
            self._write_down(each)
        running = [each for each in self.world.study if each.state == trials.RUNNING]
        while proposes and len(running) < self.world.plan["parallel"]:
            number = len(self.world.study)
            if number == self.world.plan["trials"]:
                break
            if number in self.world.repeats:
                self.world.study.append(replace(self.world.study[0], number=number, run=""))
                continue
            running.append(Trial(number, trials.RUNNING, {"training.lr": number / 10}))
            self.world.study.append(running[-1])
        complete = [each for each in self.world.study if each.state == trials.COMPLETE]
        best = max(complete, key=lambda each: each.objective or 0, default=None)
        self.world.called()
        return Answer(tuple(self.world.study), best.number if best else None)

    def _write_down(self, seen: Observed) -> None:
        known = self.world.study[seen.number]
        if known.state != trials.RUNNING:
            return
        if seen.objective:
            epoch, value = seen.objective[-1]
            known = replace(known, epoch=epoch, objective=value)
        states = {"failed": trials.FAILED, "succeeded": trials.COMPLETE}
        state = states.get(seen.outcome, trials.RUNNING)
        if state == trials.RUNNING and seen.objective and seen.number in self.world.poor:
            state = trials.PRUNED
        self.world.study[seen.number] = replace(known, state=state, run=seen.run)


class PlayedStack:
    """A stack whose updates make and delete jobs. One that is made anew goes on with its run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_up = False

    def submit(self, wanted: Sequence[Trial]) -> None:
        self.world.called()
        self.world.submissions.append([each.number for each in wanted])
        names = {f"{JOB}{each.number}" for each in wanted if each.number not in self.world.never_made}
        for name in set(self.world.jobs) - names:
            del self.world.jobs[name]
        for name in sorted(names - set(self.world.jobs)):
            self.world.jobs[name] = Job(f"{name}-0a1b2c3d")
            self.world.called()
        self.is_up = True
        self.world.called()

    def runs(self) -> Mapping[str, str]:
        return {name: job.run for name, job in self.world.jobs.items()}

    def conditions(self) -> Mapping[str, str] | None:
        """Nobody can tell before the stack was brought up by this process."""
        self.world.called()
        self.world.rounds += 1
        if not self.is_up or self.world.is_down or self.world.rounds in self.world.silent:
            return None
        return {name: job.condition for name, job in self.world.jobs.items()}

    def bring_back(self, wanted: Sequence[Trial]) -> None:
        self.world.brought_back.append([each.number for each in wanted])
        if self.world.repairs:
            self.world.silent = frozenset()

    def is_down(self) -> bool:
        return self.world.is_down

    def last_lines(self, run: str) -> list[str]:
        return [f"Traceback of {run}"]
