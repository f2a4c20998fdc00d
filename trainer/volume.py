"""Files on the model volume. A reader never sees half a file: write beside it, fsync, rename, fsync the folder."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

MODEL = "mnist_cnn.pt"


def write(path: Path, content: bytes) -> None:
    """Put `content` at `path` in one step, on disk when this returns."""
    beside = part(path)
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync(path.parent)


def part(path: Path) -> Path:
    """A name beside `path` that only this process uses; in pods each process has number 1."""
    return path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")


def sync(folder: Path) -> None:
    """Have the folder's entries on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_run(model_dir: Path, run: str | None) -> Path | None:
    """The folder of this run, made when missing; None when the model directory cannot be written.

    A run without a name takes the job's, and a new number where a finished run of that name exists: a restarted pod
    goes on with its run, a job submitted again starts anew.
    """
    try:
        runs = model_dir / "runs"
        runs.mkdir(exist_ok=True)
        folder = runs / run if run else _unfinished(runs, job_name(socket.gethostname()))
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) and os.access(model_dir, os.W_OK) else None


def job_name(hostname: str) -> str:
    """`pytorch-simple` of the operator's pod name `pytorch-simple-master-0`."""
    return re.sub(r"-(master|worker)-\d+$", "", hostname) or "run"


def _unfinished(runs: Path, name: str) -> Path:
    number = 1
    while True:
        folder = runs / (name if number == 1 else f"{name}-{number}")
        if not (folder / MODEL).exists():
            return folder
        number += 1
