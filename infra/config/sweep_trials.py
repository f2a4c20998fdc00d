"""The jobs of a search's trials: the stack's own job with proposed values, under names of their own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.config.errors import ConfigError, key_of, paragraph
from infra.config.image import ImageConfig
from infra.config.job import JobConfig
from infra.config.matrix_jobs import made_from, template_with
from infra.config.names import JOB_NAME_LENGTH
from infra.config.sweep import SweepConfig

FOLDER = "sweep"
"""On the volume: the runs of trials, and the studies. The model at the volume's top stays that of the stack's job."""
MODEL_DIR = "TRAINER_MODEL_DIR"
EPOCHS = "training.epochs"


@dataclass(frozen=True)
class Trial:
    """One proposal: its number in the study, and the values of the options by key."""

    number: int
    values: dict[str, float]


@dataclass(frozen=True)
class UnderWay:
    """What `make sweep` hands over to the program.

    Parameters:
        stack: name of the stack that is searched on.
        job: the beginning of the trials' names, as the search began with it.
        identity: what its trials have in common: infra.sweep.search.identity.
        trials: those that are under way.
    """

    stack: str
    job: str
    identity: str
    trials: tuple[Trial, ...]


def read(file: Path) -> UnderWay:
    """The trials that are under way, as `make sweep` writes them down."""
    found = json.loads(file.read_text())
    trials = tuple(Trial(each["number"], each["values"]) for each in found["trials"])
    return UnderWay(found["stack"], found["job"], found["identity"], trials)


def ensure_asked(template: JobConfig, sweep: SweepConfig | None, file: str, job: str) -> None:
    """Raises ConfigError where the stack file no longer asks for the search that is under way.

    Parameters:
        template: the stack's own job.
        file: the stack file's path.
        job: the beginning of the trials' names, as the search began with it.
    """
    found = job_name(template.name, sweep, "") if sweep else None
    if found != job:
        shown = f"(trials would be {found}0 and so on)" if found else "(absent)"
        allowed = f"the search that is under way, whose trials are {job}0 and so on"
        fix = "undo the edit of sweep, sweep.name or job.name; or end the search: Ctrl-C, then `make up`"
        raise ConfigError(paragraph(file, key_of(("sweep",)), shown, allowed, fix))


def job_name(template: str, sweep: SweepConfig, number: int | str) -> str:
    """`mnist-sweep-7`: the name of a trial's job."""
    return f"{template}-{sweep.name}-{number}"


def job(template: JobConfig, sweep: SweepConfig, mount_path: str, file: str, trial: Trial) -> JobConfig:
    """The job of `trial`. Raises ConfigError where it is none.

    Parameters:
        template: the stack's own job.
        mount_path: where the pods see the volume.
        file: the stack file's path, for errors.
    """
    places = {key_of(("job", key)): key_of(("sweep", f"options.{key}")) for key in trial.values}
    given: dict[str, Any] = dict(trial.values)
    if EPOCHS in given:
        given["training.digitsEpochs"] = None  # they would count in place of the values
    section = template_with(template, given) | {"name": job_name(template.name, sweep, trial.number)}
    made = made_from(section, file, places, "sweep")
    # The search takes it away.
    stays = made.run_policy.model_copy(update={"ttl_seconds_after_finished": None})
    env = {**made.env, MODEL_DIR: f"{mount_path}/{FOLDER}"}
    return made.model_copy(update={"env": env, "run_policy": stays})


def ensure_possible(template: JobConfig, sweep: SweepConfig, image: ImageConfig, file: str) -> None:
    """Raises ConfigError where a trial could not be a valid job, or could not report its objective."""
    if image.is_wholly_own:
        allowed = "nothing where image.dockerfile is wholly your own: our trainer tells how good a trial is"
        raise ConfigError(paragraph(file, key_of(("sweep",)), "(present)", allowed, "remove sweep"))
    for key, found in (("runId", template.run_id), ("runPolicy.suspend", template.run_policy.suspend)):
        if found:
            allowed = "nothing beside sweep, whose jobs train"
            raise ConfigError(
                paragraph(file, key_of(("job", key)), found, allowed, f"remove {key}, or sweep")
            )
    # Ten times as many: a proposal that a kill has torn leaves its number unused.
    longest = job_name(template.name, sweep, 10 * sweep.trials)
    if len(longest) > JOB_NAME_LENGTH:
        allowed = f"names of jobs of at most {JOB_NAME_LENGTH} characters; {longest} has {len(longest)}"
        fix = f"shorten it, or job.name, {template.name}"
        raise ConfigError(paragraph(file, key_of(("sweep", "name")), sweep.name, allowed, fix))
    for end in (0, -1):
        values = {key: each.values[end] for key, each in sweep.space.items()}
        job(template, sweep, "/models", file, Trial(0, values))
