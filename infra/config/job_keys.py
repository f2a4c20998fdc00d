"""Reads and sets keys of a job in its stack file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.config.errors import ConfigError
from infra.config.load import from_file, job_path
from infra.config.stack_text import literals, with_values


def written(file: Path, job: str, *section: str) -> dict[str, str]:
    """The keys of `job`, or of one of its sections, with their `literals` in a valid `file`."""
    return literals(file.read_text(), (*job_path(file, job), *section))


def set_keys(file: Path, keys: Mapping[str, Mapping[str, str]], *section: str) -> None:
    """Set keys of jobs in a valid stack file.

    Raises ConfigError where its layout does not let them be set, or they make it invalid; it stays as it was then.

    Parameters:
        keys: job's name -> key -> scalar as it is to be written.
        section: the section of each job that has the keys; the job itself without one.
    """
    before = file.read_bytes()  # as they are, line ends included
    text = before.decode()
    for job, values in keys.items():
        if values:
            text = with_values(text, (*job_path(file, job), *section), values, f"stacks/{file.name}")
    file.write_bytes(text.encode())
    try:
        from_file(file)
    except ConfigError:
        file.write_bytes(before)
        raise
