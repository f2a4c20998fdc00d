"""Data sets as tensors of bytes: where they are found, fetched and checked."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import torch
from torch import Tensor

from trainer import examples, idx, volume
from trainer.examples import Examples, Tensors
from trainer.networks import normalize
from trainer.options import DATASETS, Config

TEMPORARY = Path(tempfile.gettempdir()) / "trainer-datasets"
VALIDATION = 5_000  # of MNIST's 60,000, a twelfth; of smaller data sets, too, a twelfth
TORCHVISION = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "kmnist": "KMNIST"}
ANSWER_S = 30


def resolve(config: Config) -> str:
    """The data set's name. For `auto`: that in the data directory, else the first preferred one found, else digits.

    A data directory that holds only other files, such as train.csv, is refused: the user did not mean the digits.
    `load` reads the files, and finds wrong content. Raises DataError.
    """
    if config.data:
        return config.data
    if config.dataset != "auto":
        return config.dataset
    if idx.present(config.data_dir):
        with instead_digits(config):
            return idx.recognize(config.data_dir)
    for place in (config.data_dir, config.baked_dir):
        for name in config.preferred:
            if idx.complete(place / name):
                return name
        if place == config.data_dir and (there := idx.strangers(place, DATASETS)):
            raise idx.DataError(
                f"--dataset auto finds no data set that it knows in {idx.shown(place)}, but {idx.listed(there)}: name "
                "a function that reads these files with --data package.module:function, put the four IDX files of a "
                "data set into that folder, or choose --dataset digits, which is in the image"
            )
    return "digits"


def folder(config: Config, dataset: str) -> Path:
    """The folder that holds `dataset`: the data directory, its subfolder, the image's folder, or a new download's.

    A user put files into the data directory itself, so a missing or damaged file there is an error. A subfolder may
    come from a download, and counts only if all four files are there. Raises DataError.
    """
    if dataset != "digits" and idx.present(config.data_dir) and not idx.of_another(config.data_dir, dataset):
        return config.data_dir
    places = [config.data_dir / dataset, config.baked_dir / dataset]
    for place in places:
        if idx.complete(place) and not idx.of_another(place, dataset):
            return place
    if config.download and dataset in TORCHVISION:
        return fetch(dataset, config.mirror, (config.data_dir, config.model_dir / "datasets", TEMPORARY))
    raise idx.DataError(
        f"{dataset} is in none of {', '.join(map(str, (config.data_dir, *places)))}; put its four IDX files into "
        f"{places[0]}, or choose --dataset digits, which is in the image"
    )


def load(config: Config, dataset: str) -> tuple[Examples, Examples]:
    """The parts to train on and to test on; with config.validation, both are parts of the training images.

    Images of a named data set are verified. Raises DataError, custom.CustomError.
    """
    if config.data:
        return examples.parts(config.data, folder=config.data_dir, seed=config.seed)
    return load_images(config, dataset)


def load_images(config: Config, dataset: str) -> tuple[Tensors, Tensors]:
    """Training and test images of a named data set, bytes (n, 28, 28), with their labels. Raises DataError."""
    with instead_digits(config):
        place = folder(config, dataset)
        train = read(place, idx.TRAIN, dataset)
        if config.validation:
            kept = len(train) - len(train) * VALIDATION // 60_000
            return _images(train.inputs[:kept], train.targets[:kept]), _images(
                train.inputs[kept:], train.targets[kept:]
            )
        return train, read(place, idx.TEST, dataset)


@contextmanager
def instead_digits(config: Config) -> Iterator[None]:
    """Adds a fix to a DataError about files that the user did not name."""
    try:
        yield
    except idx.DataError as error:
        if config.dataset != "auto":
            raise
        raise idx.DataError(f"{error}, or choose --dataset digits") from error


def read(place: Path, names: tuple[str, str], dataset: str) -> Tensors:
    """One part of a data set, images (n, 28, 28) and labels (n,), from the two files. Raises DataError."""
    images, labels = (tensor(idx.verify(place, name, dataset), name) for name in names)
    if len(images) != len(labels) or images.shape[1:] != (28, 28):
        raise idx.DataError(
            f"{place}: {names[0]} has shape {tuple(images.shape)}, and {names[1]} has shape {tuple(labels.shape)}; "
            "the trainer reads shapes (n, 28, 28) and (n,)"
        )
    return _images(images, labels.long())


def _images(images: Tensor, labels: Tensor) -> Tensors:
    return Tensors(images, labels, prepare=normalize)


def tensor(raw: bytes, name: str) -> Tensor:
    """The contents `raw` of the IDX file `name` as a tensor of uint8 in the file's shape. Raises idx.DataError."""
    shape, values = idx.parse(raw, name)
    return torch.frombuffer(bytearray(values), dtype=torch.uint8).reshape(shape)


def fetch(dataset: str, mirror: str | None, places: Sequence[Path]) -> Path:
    """Folder with the verified files of `dataset`, in the first of `places` that can be written.

    Ranks that share the place wait for the first rank, and then find the files there. Raises idx.DataError.
    """
    folder = writable([place / dataset for place in places])
    with alone(folder):
        try:
            for name in idx.FILES:
                idx.verify(folder, name, dataset)
        except idx.DataError:
            part = folder / ".part"
            shutil.rmtree(part, ignore_errors=True)  # from an interrupted download
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
    from torchvision import datasets  # its import takes 0.2 s, and only a download needs it

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
    """The first of `places` that is a writable folder, or can be made one. Raises idx.DataError."""
    for place in places:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(place, os.W_OK):
            return place
    raise idx.DataError(
        f"nothing can be downloaded: none of {', '.join(map(str, places))} can be written; make one writable"
    )


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel releases the lock when this process dies."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
