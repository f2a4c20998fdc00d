"""Reads and sets keys of a job in its stack file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.config.errors import ConfigError
from infra.config.load import PREFIX, base_of, from_file, job_path, own
from infra.config.stack_text import literals, with_values


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
