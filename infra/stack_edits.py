"""Edits a stack file for the user: for `make promote`, `make use` and `make rerun`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from infra import dataset, paths, stack_plan
from infra.config import ConfigError, Stack, from_file, stack_text
from infra.config.job import JobConfig
from infra.config.load import PREFIX, base_of, ensure_trains, job_path, own
from infra.config.stack_text import literals, with_values
from infra.config.training import TrainingConfig
from infra.job.run_id import data, programs

NO_RUN = "none"

# Keys of job.training that are not promoted. They belong to the place where a stack runs: which data it has, and the
# backend through which its replicas exchange gradients. All other keys decide which weights a job trains.
OF_THE_PLACE = ("dataset", "digitsEpochs", "backend")
PROMOTED = tuple(
    str(field.alias) for field in TrainingConfig.model_fields.values() if field.alias not in OF_THE_PLACE
)

# Other keys of a job on which a run depends. They belong to a place or a program, and stay. If they differ, the user is
# told: the accuracy was reached with the values of the first stack.
NAMED = ("command", "args", "env", "envFrom", "replicas", "nprocPerNode", "data", "pod")


@dataclass(frozen=True)
class Promotion:
    """The promotion of one job.

    Parameters:
        job: its name in the stack that is promoted.
        to: the name of the job that gets its options.
        run: the id of the job's run, as in the review of the stack that is promoted.
        changes: key of `training` -> the old and the new value, as written in a stack file.
        left: keys of `training` that job `to` sets and the promoted job does not; they stay.
        differing: keys outside `training` that a run depends on, with different values in the two jobs; they stay.
    """

    job: str
    to: str
    run: str
    changes: dict[str, tuple[str | None, str]]
    left: tuple[str, ...]
    differing: tuple[str, ...]


def promotions(source: Path, target: Path) -> list[Promotion]:
    """The options that the jobs of the stack file `target` get from the jobs of `source`. Raises ConfigError."""
    given, taking = from_file(source), from_file(target)
    datasets = dataset.of_review(given)
    found = []
    for job, to in _pairs(given, taking):
        ensure_trains(given, job.name)
        ensure_trains(taking, to.name)
        wanted, has = _options(job), _options(to)
        new, old = _texts(source, job, wanted), _texts(target, to, has)
        changes = {key: (old.get(key), new[key]) for key in wanted if wanted[key] != has.get(key)}
        run = stack_plan.run_id(given, job, datasets[job.name])
        left = tuple(key for key in PROMOTED if key in has and key not in wanted)
        found.append(Promotion(job.name, to.name, run, changes, left, _differing(job, to)))
    return found


def _options(job: JobConfig) -> dict[str, Any]:
    """The keys of PROMOTED that the job's stack file gives, with their values."""
    given = job.training.model_dump(by_alias=True, exclude_unset=True)
    return {key: given[key] for key in PROMOTED if key in given}


def _texts(file: Path, job: JobConfig, options: Mapping[str, Any]) -> dict[str, str]:
    """`options` as the stack file writes them if this text can be copied, else as YAML."""
    there = written(file, job.name, "training")
    return {
        key: there[key] if key in there and _means(there[key], key, value) else _as_yaml(value)
        for key, value in options.items()
    }


def _means(text: str, key: str, value: Any) -> bool:
    """Whether `text` sets `key` to this value."""
    try:
        read = TrainingConfig.model_validate({key: stack_text.load(text)})
    except ValidationError:
        return False
    return bool(read == TrainingConfig.model_validate({key: value}))


def _as_yaml(value: Any) -> str:
    text = yaml.safe_dump(value).removesuffix("...\n").strip()
    return text if stack_text.load(text) == value else json.dumps(value)


def _differing(job: JobConfig, other: JobConfig) -> tuple[str, ...]:
    """The keys of NAMED in which the two jobs differ."""
    aliases = {str(field.alias): name for name, field in JobConfig.model_fields.items()}
    values = [
        {**{key: getattr(each, aliases[key]) for key in NAMED}, "data": data(each), "pod": programs(each)}
        for each in (job, other)
    ]
    return tuple(key for key in NAMED if values[0][key] != values[1][key])


def _pairs(given: Stack, taking: Stack) -> Iterator[tuple[JobConfig, JobConfig]]:
    """The pairs of jobs of two stacks: their only jobs, or else the jobs of the same name."""
    if len(given.jobs) == len(taking.jobs) == 1:
        yield given.jobs[0], taking.jobs[0]
        return
    named = {job.name: job for job in taking.jobs}
    common = [job for job in given.jobs if job.name in named]
    if not common:
        raise ConfigError(
            f"stacks {given.name} and {taking.name} have no job of the same name\n"
            f"  fix: give a job of stack {taking.name} the name of the job in stack {given.name} whose options it takes"
        )
    yield from ((job, named[job.name]) for job in common)


def take_over(target: Path, found: list[Promotion]) -> None:
    """Change the stack file `target`. Raises ConfigError if the result would be invalid; the file stays then."""
    changes = {each.to: {key: new for key, (_, new) in each.changes.items()} for each in found}
    set_keys(target, changes, "training")


def choose_run(file: Path, run: str) -> list[str]:
    """Set `runId` of the jobs that use the finished run `run`, in the stack file. Returns the changed jobs' names.

    Raises ConfigError if no job makes a run of this name, if this machine's volume lacks the run, or if the file cannot
    be changed. The file stays unchanged then.

    Parameters:
        run: the run's id; with `none`, every job trains again.
    """
    stack = from_file(file)
    jobs = [job for job in stack.jobs if run == NO_RUN or run.rpartition("-")[0] == job.name]
    if not jobs:
        names = ", ".join(f"{job.name}-<8 hex digits>" for job in stack.jobs)
        raise ConfigError(f"{file.name}: no job makes run {run}\n  fix: use a run named {names}")
    wanted = None if run == NO_RUN else run
    if wanted and stack.models_are_here and not (paths.models(stack.name) / "runs" / wanted).is_dir():
        raise ConfigError(
            f"{file.name}: there is no run {wanted} on the volume\n  fix: use a run that `make runs` lists"
        )
    changed = [job.name for job in jobs if job.run_id != wanted]
    set_keys(file, {name: {"runId": wanted or "null"} for name in changed})
    return changed


def reruns(stack: Stack, only: str = "") -> dict[str, int]:
    """Job's name -> the next value of its key `rerun` for which this machine has no run of the job.

    Jobs of a `matrix` share the number of their template. Raises ConfigError for a job that does not exist, or that
    does not train because of `runId`.

    Parameters:
        only: one job's name; empty for all jobs.
    """
    names = [job.name for job in stack.jobs]
    if only and only not in names:
        raise ConfigError(f"{stack.file}: there is no job {only}\n  fix: use one of: {', '.join(names)}")
    asked = [job for job in stack.jobs if only in ("", job.name)]
    for job in asked:
        ensure_trains(stack, job.name)
    numbers = {job.name: _next_rerun(stack, job) for job in asked}
    return {stack.template.name: max(numbers.values())} if stack.template and not only else numbers


def _next_rerun(stack: Stack, job: JobConfig) -> int:
    there = paths.models(stack.name) / "runs"
    fresh = (
        number
        for number in count(job.rerun + 1)
        if not any((there / run).exists() for run in _runs(stack, job.model_copy(update={"rerun": number})))
    )
    return next(fresh)


def _runs(stack: Stack, job: JobConfig) -> Iterator[str]:
    """The possible ids of the job's run: with the data set of a review, and with this machine's data set."""
    for datasets in (dataset.of_review(stack), dataset.of_jobs(stack)):
        yield stack_plan.run_id(stack, job, datasets[job.name])


def count_up(file: Path, numbers: dict[str, int]) -> None:
    """Set `rerun` of each job in the stack file. Raises ConfigError if its layout does not allow it."""
    set_keys(file, {job: {"rerun": str(number)} for job, number in numbers.items()})


def written(file: Path, job: str, *section: str) -> dict[str, str]:
    """The keys of `job` or of one of its sections, with their `literals`, in a valid `file` or else in its base."""
    base, path = base_of(own(file), file), (*job_path(file, job), *section)
    texts = [each.read_text() for each in (base, file) if each]
    return {key: text for each in texts for key, text in literals(each, path).items()}


def set_keys(file: Path, keys: Mapping[str, Mapping[str, str]], *section: str) -> None:
    """Set keys of jobs in a valid stack file itself, also if its base has the job.

    Raises ConfigError if the file's layout does not allow it, if the base has the list `jobs`, or if the keys make the
    file invalid; the file then stays unchanged.

    Parameters:
        keys: job's name -> key -> the text of the scalar.
        section: the section of each job that gets the keys; without it, the job itself gets them.
    """
    before = file.read_bytes()  # unchanged, with the line ends
    text = before.decode()
    for job, values in keys.items():
        if values:
            path = (*job_path(file, job), *section)
            _ensure_own(file, path, values)
            text = with_values(text, path, values, f"stacks/{file.name}")
    file.write_bytes(text.encode())
    try:
        from_file(file)
    except ConfigError:
        file.write_bytes(before)
        raise


def _ensure_own(file: Path, path: tuple[str | int, ...], values: Mapping[str, str]) -> None:
    """Raises ConfigError for a job in the base's list `jobs`: a list in the file itself would replace that list."""
    given = own(file)
    base = base_of(given, file)
    if base and path[1] == f"{PREFIX}jobs" and "jobs" not in given:
        lines = ", ".join(f"{key}: {value}" for key, value in values.items())
        where = ".".join(map(str, path))
        raise ConfigError(
            f"stacks/{file.name}: its jobs are in stacks/{base.name}, which other stacks may extend, too\n"
            f"  fix: move the list jobs into stacks/{file.name}, or write in stacks/{base.name} below {where}: {lines}"
        )
