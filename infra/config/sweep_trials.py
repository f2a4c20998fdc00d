"""The jobs of a search's trials: the stack's own job with proposed values, under other names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.config.errors import key_of, not_allowed
from infra.config.image import ImageConfig
from infra.config.job import JobConfig
from infra.config.matrix_jobs import made_from, template_with
from infra.config.names import JOB_NAME_LENGTH
from infra.config.sweep import SweepConfig

FOLDER = "sweep"
"""The folder on the volume for trials' runs and studies: so the model at the top stays the stack's own job's."""
MODEL_DIR = "TRAINER_MODEL_DIR"
EPOCHS = "training.epochs"


@dataclass(frozen=True)
class Trial:
    """One proposal: its number in the study, and the values of the options by key."""

    number: int
    values: dict[str, float]


@dataclass(frozen=True)
class UnderWay:
    """The running search, which `make sweep` hands over to the program.

    Parameters:
        stack: name of the search's stack.
        job: the beginning of the trials' names, as it was when the search began.
        identity: what the search's trials have in common: infra.sweep.search.identity.
        trials: the running trials.
    """

    stack: str
    job: str
    identity: str
    trials: tuple[Trial, ...]


def read(file: Path) -> UnderWay:
    """The running search, from the file that `make sweep` writes."""
    found = json.loads(file.read_text())
    trials = tuple(Trial(each["number"], each["values"]) for each in found["trials"])
    return UnderWay(found["stack"], found["job"], found["identity"], trials)


def ensure_asked(template: JobConfig, sweep: SweepConfig | None, file: str, job: str) -> None:
    """Raises ConfigError if the stack file no longer asks for the running search.

    Parameters:
        template: the stack's own job.
        file: the stack file's path.
        job: the beginning of the trials' names, as it was when the search began.
    """
    found = job_name(template.name, sweep, "") if sweep else None
    if found != job:
        shown = f"(trials would have the names {found}0, {found}1 and so on)" if found else "(absent)"
        allowed = f"the running search, whose trials have the names {job}0, {job}1 and so on"
        fix = "undo the edit of sweep, sweep.name or job.name; or end the search: Ctrl-C, then `make up`"
        raise not_allowed(file, key_of(("sweep",)), shown, allowed, fix)


def job_name(template: str, sweep: SweepConfig, number: int | str) -> str:
    """`mnist-sweep-7`: the name of a trial's job."""
    return f"{template}-{sweep.name}-{number}"


def job(template: JobConfig, sweep: SweepConfig, mount_path: str, file: str, trial: Trial) -> JobConfig:
    """The job of `trial`. Raises ConfigError if the job is not valid.

    Parameters:
        template: the stack's own job.
        mount_path: where the pods see the volume.
        file: the stack file's path, for errors.
    """
    places = {key_of(("job", key)): key_of(("sweep", f"options.{key}")) for key in trial.values}
    given: dict[str, Any] = dict(trial.values)
    if EPOCHS in given:
        given["training.digitsEpochs"] = None  # it would replace the proposed epochs
    section = template_with(template, given) | {"name": job_name(template.name, sweep, trial.number)}
    made = made_from(section, file, places, "sweep")
    # The search deletes the job.
    stays = made.run_policy.model_copy(update={"ttl_seconds_after_finished": None})
    env = {**made.env, MODEL_DIR: f"{mount_path}/{FOLDER}"}
    return made.model_copy(update={"env": env, "run_policy": stays})


def ensure_possible(template: JobConfig, sweep: SweepConfig, image: ImageConfig, file: str) -> None:
    """Raises ConfigError if a trial could not be a valid job, or could not report its objective."""
    if image.is_wholly_own:
        allowed = (
            "nothing if the Dockerfile of image.dockerfile does not build on our trainer image: only our trainer "
            "reports how good a trial is"
        )
        raise not_allowed(file, key_of(("sweep",)), "(present)", allowed, "remove sweep")
    for key, found in (("runId", template.run_id), ("runPolicy.suspend", template.run_policy.suspend)):
        if found:
            allowed = "no value with sweep: the jobs of a search train"
            raise not_allowed(file, key_of(("job", key)), found, allowed, f"remove {key}, or sweep")
    # Ten times the number: if a proposal is interrupted by a kill, its number stays unused.
    longest = job_name(template.name, sweep, 10 * sweep.trials)
    if len(longest) > JOB_NAME_LENGTH:
        allowed = f"job names of at most {JOB_NAME_LENGTH} characters; {longest} has {len(longest)}"
        fix = f"shorten sweep.name, or job.name ({template.name})"
        raise not_allowed(file, key_of(("sweep", "name")), sweep.name, allowed, fix)
    for end in (0, -1):
        values = {key: each.values[end] for key, each in sweep.space.items()}
        job(template, sweep, "/models", file, Trial(0, values))
