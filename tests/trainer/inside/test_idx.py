import gzip
import hashlib
import subprocess
import sys
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
    """In a process of its own: those that the tests fork have imported it."""
    command = [sys.executable, "-X", "importtime", "-m", "trainer", "data", "verify", str(mnist)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert " trainer.idx\n" in done.stderr
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


@pytest.mark.sampled(2)
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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damaged", idx.FILES)
def test_training_names_a_cut_off_file_and_a_way_out(mnist: Path, tmp_path: Path, damaged: str) -> None:
    copy(sorted(mnist.glob("*.gz")), tmp_path)
    packed = tmp_path / f"{damaged}.gz"
    packed.write_bytes(packed.read_bytes()[:2_000])
    done = trainer("--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert f"{packed} is not a whole .gz file" in done.stderr
    assert done.stderr.count("or choose --dataset digits") == 1


def test_training_names_a_missing_file_and_a_way_out(mnist: Path, tmp_path: Path) -> None:
    copy(sorted(mnist.glob("t*-labels*.gz")), tmp_path)
    done = trainer("--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert "has no train-images-idx3-ubyte or train-images-idx3-ubyte.gz" in done.stderr
    assert "or choose --dataset digits" in done.stderr


def test_bake_finds_data_sets_wherever_they_lie(mnist: Path, tmp_path: Path) -> None:
    copy(sorted(mnist.glob("*.gz")), raw := tmp_path / "data" / "MNIST" / "raw")
    done = trainer("data", "bake", str(tmp_path / "data"), str(tmp_path / "datasets"))
    assert done.stdout == '{"dataset": "mnist"}\n'
    assert idx.identify(tmp_path / "datasets" / "mnist") == "mnist"
    assert raw.is_dir()


def test_baking_something_else_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "digits.csv").touch()
    assert trainer("data", "bake", str(tmp_path / "data"), str(tmp_path / "datasets")).returncode == 0
    (tmp_path / "data" / "mnist.npz").touch()
    done = trainer("data", "bake", str(tmp_path / "data"), str(tmp_path / "datasets"))
    assert done.returncode == 1
    assert "holds no data set" in done.stderr


def test_a_set_known_by_its_packed_files_has_to_stay_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As KMNIST, of which only the checksums of the .gz files are published."""
    for name in idx.FILES:
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(idx.pack((3,), name[:3].encode())))
    sums = {name: hashlib.md5((tmp_path / f"{name}.gz").read_bytes()).hexdigest() for name in idx.FILES}
    monkeypatch.setattr(idx, "PACKED_CHECKSUMS", {"kmnist": sums})
    assert idx.identify(tmp_path) == "kmnist"
    packed = tmp_path / f"{idx.FILES[0]}.gz"
    (tmp_path / idx.FILES[0]).write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    with pytest.raises(idx.DataError, match="keep them packed"):
        idx.identify(tmp_path)
