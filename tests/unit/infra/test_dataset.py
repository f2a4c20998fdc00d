"""What `dataset: auto` stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import paths
from infra.config.training import Dataset
from infra.dataset import DataError, resolve


@pytest.mark.parametrize("chosen", [None, Dataset.MNIST, Dataset.DIGITS])
def test_what_is_chosen_stays(chosen: Dataset | None, tmp_path: Path) -> None:
    assert resolve(chosen, tmp_path, paths.ROOT) is chosen


@pytest.mark.parametrize("folder", ["empty", "missing"])
def test_without_files_it_is_the_digits_in_the_image(folder: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert resolve(Dataset.AUTO, tmp_path / folder, paths.ROOT) is Dataset.DIGITS


def test_a_damaged_file_is_named_and_not_passed_over(tmp_path: Path) -> None:
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / f"{name}-ubyte").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"(?s)is damaged.*ubyte"):
        resolve(Dataset.AUTO, tmp_path, paths.ROOT)
