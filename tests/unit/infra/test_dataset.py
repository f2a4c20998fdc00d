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
    with pytest.raises(DataError, match=r"(?s)cannot be used.*ubyte"):
        resolve(Dataset.AUTO, tmp_path, paths.ROOT)


def test_files_of_another_kind_are_named(tmp_path: Path) -> None:
    """As Kaggle names those of its digit-recognizer."""
    for name in ("train.csv", "test.csv", "sample_submission.csv"):
        (tmp_path / name).write_text("label,pixel0\n")
    with pytest.raises(
        DataError, match=r"(?s)but it has sample_submission.csv, test.csv, train.csv; .*  fix: .*--data in "
    ):
        resolve(Dataset.AUTO, tmp_path, paths.ROOT)


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(DataError, match=r"cannot be read \(Permission denied\)"):
        resolve(Dataset.AUTO, tmp_path, paths.ROOT)
