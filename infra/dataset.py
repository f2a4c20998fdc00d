"""The data set that `auto` means on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from infra import paths
from infra.agreed import ProgramError
from infra.config import Stack
from infra.config.build_context import resolved
from infra.config.job import JobConfig
from infra.config.training import Dataset


class DataError(ProgramError):
    """The data files cannot be used."""


def resolve(chosen: Dataset | None, folder: Path | None, root: Path) -> Dataset | None:
    """`auto` becomes the data set in `folder`; without files there, the digits in the image. Raises DataError.

    Other data sets stay unchanged, and so does `auto` without a folder.
    """
    if chosen is not Dataset.AUTO or folder is None:
        return chosen
    try:
        if not folder.is_dir() or not any(folder.iterdir()):
            return Dataset.DIGITS
    except OSError as error:
        raise DataError(
            f"the data folder {folder} cannot be read ({error.strerror})\n  fix: make it readable for you"
        ) from error
    command = [sys.executable, "-m", "trainer", "data", "verify", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    if done.returncode:
        raise DataError(
            f"the data folder {folder} cannot be used:\n{(done.stdout + done.stderr).strip()}\n"
            "  fix: correct the files; or name a function that reads them (--data in `job.args`); or write "
            "`dataset: digits` in `job.training`"
        )
    return Dataset(json.loads(done.stdout)["dataset"])


def of_jobs(stack: Stack) -> dict[str, Dataset | None]:
    """Job's name -> the data set that it trains on when this machine applies it. Raises DataError."""
    return {job.name: resolve(job.training.dataset, looked_at(stack, job), paths.ROOT) for job in stack.jobs}


def looked_at(stack: Stack, job: JobConfig) -> Path | None:
    """The folder of this machine whose files decide what `auto` means; None if the trainer decides itself.

    With a kind cluster it is the first entry of `job.data`, if this entry is a folder. With other clusters it is data/
    of the clone: their nodes are assumed to have the same files.
    """
    if not stack.cluster.kind.has_our_nodes:
        return paths.DATA
    folder = job.data[0].folder if job.data else None
    return resolved(folder) if folder else None


def of_review(stack: Stack) -> dict[str, Dataset | None]:
    """Job's name -> its data set in a review. There `auto` counts as MNIST: a review reads no data files."""
    return {job.name: on_machine_with(Dataset.MNIST, stack, job) for job in stack.jobs}


def on_machine_with(found: Dataset, stack: Stack, job: JobConfig) -> Dataset | None:
    """The data set of `job` if the folder of `looked_at` holds `found`."""
    chosen = job.training.dataset
    return found if chosen is Dataset.AUTO and looked_at(stack, job) else chosen
