import gzip
from pathlib import Path

import pytest

from tests.inside.conftest import copy, trainer
from trainer import idx

DIGITS = Path("/datasets/digits")


def test_what_is_packed_is_parsed() -> None:
    shape, values = idx.parse(idx.pack((2, 3), bytes(range(6))), "file")
    assert shape == (2, 3)
    assert bytes(values) == bytes(range(6))


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"", "not an IDX file"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x01\x00", "not an IDX file"),
        (idx.pack((2, 3), bytes(5)), "holds 5 values, its header says 6"),
    ],
)
def test_what_is_no_idx_file_is_refused(raw: bytes, complaint: str) -> None:
    with pytest.raises(idx.DataError, match=complaint):
        idx.parse(raw, "file")


def test_the_digits_in_the_image_are_split_by_class() -> None:
    for (images, labels), count in ((idx.TRAIN, 1442), (idx.TEST, 355)):
        shape, _ = idx.parse((DIGITS / images).read_bytes(), images)
        _, classes = idx.parse((DIGITS / labels).read_bytes(), labels)
        assert shape == (count, 28, 28)
        assert all(abs(bytes(classes).count(digit) - count / 10) < 6 for digit in range(10))


def test_data_verify_names_the_data_set(mnist: Path) -> None:
    done = trainer("data", "verify", str(mnist))
    assert done.stdout == '{"dataset": "mnist"}\n'


def test_data_verify_works_without_torch(mnist: Path) -> None:
    done = trainer("data", "verify", str(mnist), PYTHONPROFILEIMPORTTIME="1")
    assert " torch\n" not in done.stderr


def test_a_corrupted_file_is_named_with_both_checksums(mnist: Path, tmp_path: Path) -> None:
    copy(sorted(mnist.glob("*.gz")), tmp_path)
    labels = bytearray(gzip.decompress((mnist / "t10k-labels-idx1-ubyte.gz").read_bytes()))
    labels[-1] ^= 1
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(labels)
    done = trainer("data", "verify", str(tmp_path))
    assert done.returncode == 1
    assert "t10k-labels-idx1-ubyte: expected md5 27ae3e4e09519cfbb04c329615203637, found " in done.stderr


def test_a_cut_off_gz_file_is_named(mnist: Path, tmp_path: Path) -> None:
    copy(sorted(mnist.glob("*.gz")), tmp_path)
    images = tmp_path / "train-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:100_000])
    done = trainer("data", "verify", str(tmp_path))
    assert done.returncode == 1
    assert f"{images} is not a whole .gz file" in done.stderr


def test_data_copy_copies_what_is_verified(mnist: Path, tmp_path: Path) -> None:
    done = trainer("data", "copy", str(mnist), str(tmp_path / "data"))
    assert done.returncode == 0
    assert idx.identify(tmp_path / "data") == "mnist"


def test_one_data_set_is_not_taken_for_another(mnist: Path) -> None:
    done = trainer("--dataset", "fashion-mnist", "--data-dir", str(mnist), "--no-download")
    assert done.returncode == 1
    assert "fashion-mnist is in none of" in done.stderr


@pytest.mark.parametrize("damaged", idx.FILES)
def test_training_names_a_damaged_file_and_a_way_out(mnist: Path, tmp_path: Path, damaged: str) -> None:
    copy(sorted(mnist.glob("*.gz")), tmp_path)
    values = bytearray(gzip.decompress((mnist / f"{damaged}.gz").read_bytes()))
    values[-1] ^= 1
    (tmp_path / damaged).write_bytes(values)
    done = trainer("--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert f"{damaged}: expected md5 {idx.CHECKSUMS['mnist'][damaged]}, found " in done.stderr
    assert "or choose --dataset digits" in done.stderr


def test_training_names_a_missing_file_and_a_way_out(mnist: Path, tmp_path: Path) -> None:
    copy(sorted(mnist.glob("t*-labels*.gz")), tmp_path)
    done = trainer("--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert "has no train-images-idx3-ubyte or train-images-idx3-ubyte.gz" in done.stderr
    assert "or choose --dataset digits" in done.stderr
