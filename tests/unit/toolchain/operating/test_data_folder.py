"""DATA_DIR: verified first, then copied whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.operating import data_folder
from toolchain.steps import SetupError


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setattr(data_folder, "DATA", tmp_path / "data")
    source = tmp_path / "source"
    source.mkdir()
    for stem in data_folder.FILES:
        (source / f"{stem}.gz").write_text(stem)
    (source / "notes.txt").write_text("not a data file")
    return source, tmp_path / "data"


def test_only_the_four_files_are_copied(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = folders
    monkeypatch.setattr(data_folder, "_verify", lambda _: "mnist")
    assert data_folder.take(source) == "mnist"
    assert {path.name for path in target.iterdir()} == {f"{stem}.gz" for stem in data_folder.FILES}


def test_files_of_another_data_set_do_not_stay_beside_the_new(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = folders
    target.mkdir()
    (target / data_folder.FILES[0]).write_text("of another data set, unpacked")
    monkeypatch.setattr(data_folder, "_verify", lambda _: "mnist")
    data_folder.take(source)
    assert {path.name for path in target.iterdir()} == {f"{stem}.gz" for stem in data_folder.FILES}


def test_the_data_folder_itself_may_be_named(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = folders
    monkeypatch.setattr(data_folder, "DATA", source)
    monkeypatch.setattr(data_folder, "_verify", lambda _: "mnist")
    data_folder.take(source)
    assert (source / f"{data_folder.FILES[0]}.gz").read_text() == data_folder.FILES[0]


def test_nothing_is_copied_when_a_file_is_bad(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = folders

    def refuse(_: Path) -> str:
        raise SetupError("a bad file")

    monkeypatch.setattr(data_folder, "_verify", refuse)
    with pytest.raises(SetupError, match="a bad file"):
        data_folder.take(source)
    assert not target.exists()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="nowhere"):
        data_folder.take(tmp_path / "nowhere")
