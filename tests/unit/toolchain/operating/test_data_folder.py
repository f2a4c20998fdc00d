"""DATA_DIR: verified first, then copied whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolchain.operating import setup
from toolchain.steps import SetupError
from trainer import data, idx

FILES = {f"{name}.gz" for name in idx.FILES}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with four packed files, and one that is none of them."""
    folder = tmp_path / "source"
    folder.mkdir()
    for name in FILES:
        (folder / name).write_text(f"new {name}")
    (folder / "notes.txt").write_text("not a data file")
    return folder


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the files count as MNIST: the real ones are not in this repository."""
    monkeypatch.setattr(idx, "identify", lambda folder: "mnist")


@pytest.mark.usefixtures("published")
def test_only_the_four_files_are_copied(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert data.main(["copy", str(source), str(tmp_path / "data")]) == 0
    assert {path.name for path in (tmp_path / "data").iterdir()} == FILES
    assert json.loads(capsys.readouterr().out) == {"dataset": "mnist"}


@pytest.mark.usefixtures("published")
def test_files_of_another_data_set_do_not_stay_beside_the_new(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "data"
    target.mkdir()
    (target / idx.FILES[0]).write_text("of another data set, unpacked")
    (target / f"{idx.FILES[1]}.gz").write_text("of another data set, packed")
    data.take(source, target)
    assert {path.name for path in target.iterdir()} == FILES
    assert all(path.read_text().startswith("new ") for path in target.iterdir())


@pytest.mark.usefixtures("published")
def test_the_data_folder_itself_may_be_named(source: Path) -> None:
    (source / idx.FILES[0]).write_text("the same, unpacked")
    data.take(source, source)
    assert {path.name for path in source.iterdir()} == {*FILES, idx.FILES[0], "notes.txt"}


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(setup, "DATA", tmp_path / "data")
    return tmp_path / "data"


def test_nothing_is_copied_when_a_file_is_bad(source: Path, target: Path) -> None:
    with pytest.raises(SetupError, match=r"(?s)ubyte.*fetch the file again"):
        setup.copy_verified(source)
    assert not target.exists()


def test_nothing_is_copied_when_a_file_is_missing(source: Path, target: Path) -> None:
    (source / f"{idx.FILES[2]}.gz").unlink()
    with pytest.raises(SetupError, match=idx.FILES[2]):
        setup.copy_verified(source)
    assert not target.exists()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="nowhere"):
        setup.copy_verified(tmp_path / "nowhere")


def test_a_relative_folder_is_the_callers(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    with pytest.raises(SetupError, match=str(source)):
        setup.copy_verified(Path("source"))
