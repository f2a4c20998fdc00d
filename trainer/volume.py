"""Files on the model volume. A reader never sees half a file: write beside it, fsync, rename, fsync the folder."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

MODEL, BEST, REPORT = "mnist_cnn.pt", "mnist_cnn.best.pt", "report.html"


class VolumeError(Exception):
    """The volume cannot be read or written; the message names the file, the kernel's reason and the fix."""


def share_with_group() -> None:
    """Let the group read and write the files of this process, also if the umask at its start forbids that.

    The next pod may run as another user of the same group: it continues the run, or replaces the latest model.
    """
    os.umask(os.umask(0o077) & ~0o070)


@contextmanager
def reported(path: Path) -> Iterator[None]:
    """Raises VolumeError for every OSError inside."""
    try:
        yield
    except OSError as error:
        raise VolumeError(
            f"{Path(error.filename or path).absolute()}: {error.strerror or error}; "
            "the volume has to be mounted, with free space, readable and writable for this user"
        ) from error


def write(path: Path, content: bytes | Callable[[IO[bytes]], object]) -> None:
    """Put `content` at `path` in one step, on disk when this returns. An error, VolumeError, leaves no file behind.

    Parameters:
        content: the bytes, or a function that writes them into an open file.
    """
    beside = part(path)
    with reported(path):
        try:
            with beside.open("w+b") as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    content(file)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise
        sync(path.parent)


def part(path: Path) -> Path:
    """A name beside `path` that only this process uses. It has the host's name, because each pod has a process 1."""
    return path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")


def sync(folder: Path) -> None:
    """Write the folder's entries to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_run(model_dir: Path, run: str | None, required: bool) -> Path | None:
    """The folder of this run, created if missing; half-written files of a killed start of this pod are removed.

    A run without a name gets the job's name, and a number if a finished run has that name: a restarted pod continues
    its run, and a job submitted again begins a new run.

    If the folder cannot be written, raises VolumeError if it is `required` (the user named it) or if a volume is
    mounted at `model_dir`. Otherwise returns None: the published pytorch-simple manifest mounts no volume.
    """
    try:
        with reported(model_dir):
            if required:
                model_dir.mkdir(parents=True, exist_ok=True)
            runs = model_dir / "runs"
            runs.mkdir(exist_ok=True)
            folder = runs / run if run else _unfinished(runs, job_name(socket.gethostname()))
            folder.mkdir(exist_ok=True)
            for place in (model_dir, folder):
                part(place / "probe").touch()
                part(place / "probe").unlink()
                sync(place)
            for left in folder.glob(f".*.{socket.gethostname()}.*"):  # from a killed start of this pod
                left.unlink()
    except VolumeError:
        if required or os.path.ismount(model_dir):
            raise
        return None
    return folder


def finished(model_dir: Path) -> list[str]:
    """Names of the runs that have a model, sorted. Raises VolumeError."""
    with reported(model_dir):
        return sorted(path.parent.name for path in model_dir.glob(f"runs/*/{MODEL}"))


def size(path: Path) -> int:
    """Bytes of the file, 0 if it is missing. Raises VolumeError."""
    with reported(path):
        return path.stat().st_size if path.exists() else 0


def reserve(folder: Path, size: int) -> None:
    """Raises VolumeError unless `size` bytes can be written into `folder` now."""
    probe = part(folder / "space")
    with reported(folder):
        try:
            with probe.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        finally:
            probe.unlink(missing_ok=True)


def job_name(hostname: str) -> str:
    """The job's name from the operator's pod name: `pytorch-simple` from `pytorch-simple-master-0`."""
    return re.sub(r"-(master|worker)-\d+$", "", hostname) or "run"


def _unfinished(runs: Path, name: str) -> Path:
    number = 1
    while True:
        folder = runs / (name if number == 1 else f"{name}-{number}")
        if not (folder / MODEL).exists():
            return folder
        number += 1
