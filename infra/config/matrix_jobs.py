"""The jobs that a matrix makes from their template, and their names."""

from __future__ import annotations

import copy
from collections.abc import Container, Mapping
from typing import Any

from pydantic import ValidationError

from infra.config.errors import ConfigError, explain, key_of, not_allowed
from infra.config.job import JobConfig
from infra.config.matrix import Combination, MatrixConfig, label
from infra.config.matrix_keys import segments
from infra.config.names import JOB_NAME_LENGTH
from infra.config.section import Section


class _OneJob(Section):
    job: JobConfig


def jobs(template: JobConfig, matrix: MatrixConfig, file: str) -> tuple[JobConfig, ...]:
    """A job for each combination of values. Raises ConfigError for the first combination without a valid job.

    Parameters:
        template: the common keys of the jobs; it is not a job itself.
        file: the stack file's path, for errors.
    """
    if template.run_id:
        allowed = "no value with matrix: a finished run belongs to one job"
        raise not_allowed(file, key_of(("job", "runId")), template.run_id, allowed, "remove runId")
    made: dict[str, JobConfig] = {}
    for values in matrix.combinations():
        _ensure_named(template, values, made, file)
        places = {key_of(("job", key)): key_of(("matrix", matrix.place(key, values[key]))) for key in values}
        section = template_with(template, values) | {"name": name(template.name, values)}
        job = made_from(section, file, places, "matrix")
        made[job.name] = job
    return tuple(made.values())


def name(template: str, values: Combination) -> str:
    """`mnist-lr-0-01-seed-2`: the name of the job with `values`."""
    words = [f"{label(segments(key)[-1])}-{label(value)}" for key, value in values.items()]
    return "-".join([template, *words])


def template_with(template: JobConfig, values: Mapping[str, Any]) -> dict[str, Any]:
    """The section `job` of `template` with `values`, as a stack file would have it; not validated.

    Parameters:
        values: a job's keys, without `job.`, to their values.
    """
    section = copy.deepcopy(template.model_dump(by_alias=True, exclude_unset=True))
    for key, value in values.items():
        *outer, last = segments(key)
        inner = section
        for each in outer:
            inner[each] = inner.get(each) or {}
            inner = inner[each]
        inner[last] = value
    return section


def made_from(section: Mapping[str, Any], file: str, places: Mapping[str, str], maker: str) -> JobConfig:
    """The job of `section`. Raises ConfigError if the job is not valid.

    Parameters:
        section: as `template_with` returns it, with the job's name.
        file: the stack file's path.
        places: key of the job -> the key that the file has instead, for values that are elsewhere in the file.
        maker: the section that makes the job.
    """
    try:
        return _OneJob.model_validate({"job": section}).job
    except ValidationError as error:
        found = explain(error, _OneJob, file, places)
        raise ConfigError(f"{found}\n  in: job {section['name']}, made by {maker}") from None


def _ensure_named(template: JobConfig, values: Combination, made: Container[str], file: str) -> None:
    """Raises ConfigError if the name of the job with `values` is too long, or is the name of a job in `made`."""
    found, key = name(template.name, values), key_of(("matrix", "options"))
    if len(found) > JOB_NAME_LENGTH:
        allowed = f"job names of at most {JOB_NAME_LENGTH} characters; this name has {len(found)}"
        fix = f"shorten job.name ({template.name}) or the values, or vary fewer keys"
        raise not_allowed(file, key, f"(makes {found})", allowed, fix)
    if found in made:
        allowed = "values with which all jobs have different names"
        fix = "write one of the values differently"
        raise not_allowed(file, key, f"(makes {found} twice)", allowed, fix)
