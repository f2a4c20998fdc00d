"""What one stack's jobs train with, taken over into another stack's file: for `make promote`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from infra.config import ConfigError, Stack, from_file, stack_text
from infra.config.job import JobConfig
from infra.config.job_keys import set_keys, written
from infra.config.load import ensure_trains
from infra.config.training import TrainingConfig
from infra.job.run_id import data, programs
from infra.review import rendering

# Of job.training: what decides how the weights come about. The others belong to a stack's place: which data is there,
# and what its replicas exchange gradients through.
OF_THE_PLACE = ("dataset", "digitsEpochs", "backend")
PROMOTED = tuple(
    str(field.alias) for field in TrainingConfig.model_fields.values() if field.alias not in OF_THE_PLACE
)

# Beside `training`, what a run depends on. They belong to a place or a program, and stay; but they are named where they
# differ, since the accuracy was reached with those of the first stack.
NAMED = ("command", "args", "env", "envFrom", "replicas", "nprocPerNode", "data", "pod")


@dataclass(frozen=True)
class Promotion:
    """One job's part.

    Parameters:
        job: its name in the stack that is promoted.
        to: the name of the job that takes its options.
        run: the id of the run that the first stack's file and a review of it ask for.
        dataset: what that run trains on; None for the trainer's default.
        changes: key of `training` -> the values that it had and gets, as they are written in a stack file.
        left: keys that the first stack does not give, and the other does; they stay.
        differing: keys of the job outside `training` that a run depends on and that differ; they stay.
    """

    job: str
    to: str
    run: str
    dataset: str | None
    changes: dict[str, tuple[str | None, str]]
    left: tuple[str, ...]
    differing: tuple[str, ...]


def promotions(source: Path, target: Path) -> list[Promotion]:
    """What the jobs of the stack file `target` take over from those of `source`. Raises ConfigError."""
    given, taking = from_file(source), from_file(target)
    datasets = rendering.rendered_datasets(given)
    found = []
    for job, to in _pairs(given, taking):
        ensure_trains(given, job.name)
        ensure_trains(taking, to.name)
        wanted, has = _options(job), _options(to)
        new, old = _texts(source, job, wanted), _texts(target, to, has)
        changes = {key: (old.get(key), new[key]) for key in wanted if wanted[key] != has.get(key)}
        dataset = datasets[job.name]
        run = rendering.run_id(given, job, dataset)
        left = tuple(key for key in PROMOTED if key in has and key not in wanted)
        name = dataset.value if dataset else None
        found.append(Promotion(job.name, to.name, run, name, changes, left, _differing(job, to)))
    return found


def _options(job: JobConfig) -> dict[str, Any]:
    """The keys of PROMOTED that the job's stack file gives, with their values."""
    fields = {str(field.alias): name for name, field in TrainingConfig.model_fields.items()}
    return {
        key: getattr(job.training, fields[key])
        for key in PROMOTED
        if fields[key] in job.training.model_fields_set
    }


def _texts(file: Path, job: JobConfig, options: Mapping[str, Any]) -> dict[str, str]:
    """`options` as the stack file writes them where that can be copied, else as YAML writes their values."""
    there = written(file, job.name, "training")
    return {
        key: there[key] if key in there and _means(there[key], key, value) else _as_yaml(value)
        for key, value in options.items()
    }


def _means(text: str, key: str, value: Any) -> bool:
    """Whether `text` gives `key` this value, wherever it stands."""
    try:
        read = TrainingConfig.model_validate({key: stack_text.load(text)})
    except ValidationError:
        return False
    return bool(read == TrainingConfig.model_validate({key: value}))


def _as_yaml(value: Any) -> str:
    text = yaml.safe_dump(value).removesuffix("...\n").strip()
    return text if stack_text.load(text) == value else json.dumps(value)


def _differing(job: JobConfig, other: JobConfig) -> tuple[str, ...]:
    """The keys of NAMED in which the two differ."""
    aliases = {str(field.alias): name for name, field in JobConfig.model_fields.items()}
    values = [
        {**{key: getattr(each, aliases[key]) for key in NAMED}, "data": data(each), "pod": programs(each)}
        for each in (job, other)
    ]
    return tuple(key for key in NAMED if values[0][key] != values[1][key])


def _pairs(given: Stack, taking: Stack) -> Iterator[tuple[JobConfig, JobConfig]]:
    """The only job of one stack and the only one of the other; of several those of one name."""
    if len(given.jobs) == len(taking.jobs) == 1:
        yield given.jobs[0], taking.jobs[0]
        return
    named = {job.name: job for job in taking.jobs}
    common = [job for job in given.jobs if job.name in named]
    if not common:
        raise ConfigError(
            f"stacks {given.name} and {taking.name} have no job of the same name\n"
            f"  fix: give a job of {taking.name} the name of the one in {given.name} whose options it takes"
        )
    yield from ((job, named[job.name]) for job in common)


def write(target: Path, found: list[Promotion]) -> None:
    """Change the stack file `target`. Raises ConfigError where it would not be valid; it stays as it was then."""
    changes = {each.to: {key: new for key, (_, new) in each.changes.items()} for each in found}
    set_keys(target, changes, "training")
