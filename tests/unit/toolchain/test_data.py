"""DATA_DIR: verified first, then copied whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain import data
from toolchain.steps import SetupError


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setattr(data, "DATA", tmp_path / "data")
    source = tmp_path / "source"
    source.mkdir()
    for stem in data.FILES:
        (source / f"{stem}.gz").write_text(stem)
    (source / "notes.txt").write_text("not a data file")
    return source, tmp_path / "data"


def test_only_the_four_files_are_copied(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = folders
    monkeypatch.setattr(data, "_verify", lambda _: "mnist")
    assert data.take(source) == "mnist"
    assert {path.name for path in target.iterdir()} == {f"{stem}.gz" for stem in data.FILES}


def test_files_of_another_data_set_do_not_stay_beside_the_new(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = folders
    target.mkdir()
    (target / data.FILES[0]).write_text("of another data set, unpacked")
    monkeypatch.setattr(data, "_verify", lambda _: "mnist")
    data.take(source)
    assert {path.name for path in target.iterdir()} == {f"{stem}.gz" for stem in data.FILES}


def test_the_data_folder_itself_may_be_named(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = folders
    monkeypatch.setattr(data, "DATA", source)
    monkeypatch.setattr(data, "_verify", lambda _: "mnist")
    data.take(source)
    assert (source / f"{data.FILES[0]}.gz").read_text() == data.FILES[0]


def test_nothing_is_copied_when_a_file_is_bad(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = folders

    def refuse(_: Path) -> str:
        raise SetupError("a bad file")

    monkeypatch.setattr(data, "_verify", refuse)
    with pytest.raises(SetupError, match="a bad file"):
        data.take(source)
    assert not target.exists()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="nowhere"):
        data.take(tmp_path / "nowhere")
