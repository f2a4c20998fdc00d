"""Sizes out of a checkpoint without torch. The recorded one is the trainer's, of torch 2.6.0."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.planning import checkpoint_sizes
from toolchain.planning.checkpoint_sizes import CHECKPOINT, sizes

RECORDED = Path(__file__).with_name("recorded") / CHECKPOINT
# Linear 4 -> 3, batch norm of 3, two linear layers of 3 that share their matrix.
PARAMETERS = (12 + 3) + (3 + 3) + (9 + 3) + 3
# Running mean and variance, the count of batches, and a mask of 5 that a model file leaves out.
BUFFERS = 3 + 3 + 1 + 5


class Hostile:
    """A pickle that makes whoever believes it run a command."""

    def __init__(self, told: Path) -> None:
        self.told = told

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.told}",)


def archive(folder: Path, content: bytes, name: str = "archive/data.pkl") -> Path:
    with zipfile.ZipFile(folder / CHECKPOINT, "w") as made:
        made.writestr(name, content)
    return folder


def test_parameters_and_buffers_of_a_checkpoint_are_counted() -> None:
    assert sizes(RECORDED.parent) == (PARAMETERS, BUFFERS)


def test_a_checkpoint_cannot_run_anything(tmp_path: Path) -> None:
    told = tmp_path / "told"
    archive(tmp_path, pickle.dumps({"model": Hostile(told), "buffers": []}))
    assert sizes(tmp_path) is None
    assert not told.exists()


@pytest.mark.parametrize("length", range(0, RECORDED.stat().st_size, 97))
def test_a_torn_checkpoint_tells_nothing(tmp_path: Path, length: int) -> None:
    (tmp_path / CHECKPOINT).write_bytes(RECORDED.read_bytes()[:length])
    assert sizes(tmp_path) is None


@pytest.mark.parametrize(
    "state",
    [{}, [], None, {"model": 3}, {"model": [1, 2]}, {"model": None, "buffers": None}],
    ids=str,
)
def test_a_foreign_checkpoint_tells_nothing(tmp_path: Path, state: object) -> None:
    assert sizes(archive(tmp_path, pickle.dumps(state))) is None


@pytest.mark.parametrize("name", ["other", "data.pkl.txt"])
def test_a_foreign_archive_tells_nothing(tmp_path: Path, name: str) -> None:
    assert sizes(archive(tmp_path, b"", name)) is None


@pytest.mark.parametrize("seed", range(200))
def test_a_damaged_pickle_is_no_error(tmp_path: Path, seed: int) -> None:
    with zipfile.ZipFile(RECORDED) as whole:
        (name,) = [each for each in whole.namelist() if each.endswith("/data.pkl")]
        content = bytearray(whole.read(name))
    place = seed * 7919 % len(content)
    content[place] ^= 1 << seed % 8
    found = sizes(archive(tmp_path, bytes(content)))
    assert found is None or all(isinstance(each, int) for each in found)


def test_no_folder_tells_nothing(tmp_path: Path) -> None:
    assert checkpoint_sizes.sizes(tmp_path / "none") is None
