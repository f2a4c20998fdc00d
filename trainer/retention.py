"""Removes old finished runs of a job below runs/ on the volume."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from trainer import volume

# The form in which stacks name runs: the job's name, and a digest of what the training depends on.
NAME = re.compile(r"(?P<job>.+)-[0-9a-f]{8}")
REMOVED = ".removed-"
DAY_S = 24 * 60 * 60


def clean(run: Path, number: int | None, days: float | None) -> list[str]:
    """Remove finished runs of the job of `run` that exceed a limit. Returns their names, the oldest first.

    `run` itself stays: it has just finished, and the latest model is its model. A run in use stays, too: it has no
    model yet or, if somebody continues a finished run, a file that is newer than its model. Also removes what an
    interrupted removal left. If the name of `run` does not have the stacks' form, nothing is removed. Raises
    volume.VolumeError.

    Parameters:
        run: the folder of the run that has just finished.
        number: how many finished runs stay at most, `run` among them; None for any number.
        days: how old a model may be, against that of `run`; None for any age.
    """
    named = NAME.fullmatch(run.name)
    if named is None or (number is None and days is None):
        return []
    with volume.reported(run):
        job = named["job"]
        for left in run.parent.glob(f"{REMOVED}{job}-*"):
            if _job_of(left.name.removeprefix(REMOVED)) == job:
                shutil.rmtree(left)
        now = (run / volume.MODEL).stat().st_mtime
        others = {
            each: (each / volume.MODEL).stat().st_mtime
            for each in run.parent.iterdir()
            if each != run and _job_of(each.name) == job and _is_finished(each)
        }
        newest_first = sorted(others, key=lambda each: (others[each], each.name), reverse=True)
        surplus = set(newest_first[max(number - 1, 0) :]) if number is not None else set()
        if days is not None:
            surplus |= {each for each in others if now - others[each] > days * DAY_S}
        oldest_first = [each for each in reversed(newest_first) if each in surplus]
        for each in oldest_first:
            _remove(each)
    return [each.name for each in oldest_first]


def _job_of(name: str) -> str | None:
    named = NAME.fullmatch(name)
    return named["job"] if named else None


def _is_finished(run: Path) -> bool:
    """Whether the model is the newest file: training writes it last."""
    model = run / volume.MODEL
    if run.is_symlink() or not model.is_file():
        return False
    written = model.stat().st_mtime
    return all(each.stat().st_mtime <= written for each in run.iterdir())


def _remove(run: Path) -> None:
    """Remove a run so that no reader sees half of it: half a run would look like an unfinished run."""
    aside = run.with_name(f"{REMOVED}{run.name}")
    run.replace(aside)
    volume.sync(run.parent)
    shutil.rmtree(aside)
