"""The finished run that a job goes back to, written into the stack file: for `make use`."""

from __future__ import annotations

from pathlib import Path

from infra import paths
from infra.config import ConfigError, from_file
from infra.config.job_keys import set_keys

NONE = "none"


def choose(file: Path, run: str) -> list[str]:
    """Write `run` into the stack file for the job that it is of; the names of the jobs that changed.

    Raises ConfigError where no job has such runs, the volume is here without that run, or the file cannot be changed.
    It stays as it was then.

    Parameters:
        run: `none` has every job train again as the file says.
    """
    stack = from_file(file)
    jobs = [job for job in stack.jobs if run == NONE or run.rpartition("-")[0] == job.name]
    if not jobs:
        names = ", ".join(f"{job.name}-<8 hex digits>" for job in stack.jobs)
        raise ConfigError(f"{file.name}: no job makes run {run}\n  fix: take a run called {names}")
    wanted = None if run == NONE else run
    if wanted and stack.models_are_here and not (paths.models(stack.name) / "runs" / wanted).is_dir():
        raise ConfigError(
            f"{file.name}: there is no run {wanted} on the volume\n  fix: take one that `make runs` lists"
        )
    changed = [job.name for job in jobs if job.run_id != wanted]
    set_keys(file, {name: {"runId": wanted or "null"} for name in changed})
    return changed
