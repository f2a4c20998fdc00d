"""Fetching a data set that is nowhere on the machine: from a mirror's URL, or by way of torchvision."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from trainer import idx, volume

TORCHVISION = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "kmnist": "KMNIST"}
ANSWER_S = 30


def fetch(dataset: str, mirror: str | None, places: Sequence[Path]) -> Path:
    """Folder with the verified files of `dataset`, in the first of `places` that can be written.

    Ranks that share the place wait for the first of them, and find the files there. Raises idx.DataError.
    """
    folder = writable([place / dataset for place in places])
    with alone(folder):
        try:
            for name in idx.FILES:
                idx.verify(folder, name, dataset)
        except idx.DataError:
            part = folder / ".part"
            shutil.rmtree(part, ignore_errors=True)  # of a download that was interrupted
            part.mkdir()
            try:
                raw = from_mirror(part, mirror) if mirror else from_torchvision(part, dataset)
                for name in idx.FILES:
                    idx.verify(raw, name, dataset)
                for name in idx.FILES:
                    (raw / f"{name}.gz").replace(folder / f"{name}.gz")
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return folder


def from_mirror(into: Path, mirror: str) -> Path:
    """Folder with the .gz files, which is `into`. Raises idx.DataError."""
    for name in idx.FILES:
        url = f"{mirror.rstrip('/')}/{name}.gz"
        try:
            with urlopen(url, timeout=ANSWER_S) as answer:
                volume.write(into / f"{name}.gz", answer.read())
        except (URLError, HTTPException, OSError, ValueError) as error:
            raise idx.DataError(f"{url} cannot be fetched ({error}); check --mirror") from error
    return into


def from_torchvision(into: Path, dataset: str) -> Path:
    """Folder below `into` with the .gz files. Raises idx.DataError."""
    from torchvision import datasets  # takes 0.2 s to import, which only a download pays for

    kind = getattr(datasets, TORCHVISION[dataset])
    try:
        kind(into, download=True)
    except (URLError, OSError, RuntimeError) as error:
        raise idx.DataError(
            f"{dataset} is not on this machine and torchvision cannot download it ({error}); put its four IDX "
            "files into the data directory, or choose --dataset digits, which is in the image"
        ) from error
    return into / str(kind.__name__) / "raw"


def writable(places: Sequence[Path]) -> Path:
    for place in places:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(place, os.W_OK):
            return place
    raise idx.DataError(f"nothing can be downloaded: none of {', '.join(map(str, places))} can be written")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel gives it back when a holder dies."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
