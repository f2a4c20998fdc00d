"""Has a stack file ask for the same training once more, as a run of its own: for `make rerun`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from infra import dataset, paths
from infra.config import ConfigError, Stack
from infra.config.job import JobConfig
from infra.config.job_keys import set_keys
from infra.config.load import ensure_trains
from infra.review import rendering


def reruns(stack: Stack, only: str = "") -> dict[str, int]:
    """Job's name -> the next value of its key `rerun` with which no run of the job is on this machine.

    Jobs of a `matrix` have one number, that of their template. Raises ConfigError for a job that does not exist, or
    that `runId` keeps from training.

    Parameters:
        only: the one job that is asked for; empty for all.
    """
    names = [job.name for job in stack.jobs]
    if only and only not in names:
        raise ConfigError(f"{stack.file}: there is no job {only}\n  fix: use one of: {', '.join(names)}")
    asked = [job for job in stack.jobs if only in ("", job.name)]
    for job in asked:
        ensure_trains(stack, job.name)
    numbers = {job.name: _next(stack, job) for job in asked}
    return {stack.template.name: max(numbers.values())} if stack.template and not only else numbers


def _next(stack: Stack, job: JobConfig) -> int:
    there = paths.models(stack.name) / "runs"
    fresh = (
        number
        for number in count(job.rerun + 1)
        if not any((there / run).exists() for run in _runs(stack, job.model_copy(update={"rerun": number})))
    )
    return next(fresh)


def _runs(stack: Stack, job: JobConfig) -> Iterator[str]:
    """The ids that the job's run may have: with the data set of a review, and with that of this machine."""
    for datasets in (rendering.rendered_datasets(stack), dataset.of_jobs(stack)):
        yield rendering.run_id(stack, job, datasets[job.name])


def write(file: Path, numbers: dict[str, int]) -> None:
    """Set `rerun` of each job in the stack file. Raises ConfigError where its layout does not let it."""
    set_keys(file, {job: {"rerun": str(number)} for job, number in numbers.items()})
