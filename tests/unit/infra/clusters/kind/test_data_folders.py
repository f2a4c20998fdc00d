"""Folders of this machine as data on kind: linked or copied below data/, refused, filled again, removed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from infra import dataset, paths
from infra.clusters.kind import data_folders
from infra.clusters.kind.data_folders import DataFolderError, LinkedFolderProvider, fill
from infra.config import ConfigError, Stack
from infra.config.training import Dataset
from tests.unit.infra.recorder import Recorder, run_program
from tests.unit.infra.samples import JOB, stack
from tests.unit.infra.test_program import configured, recorder

__all__ = ["recorder"]
LINKED = "pulumi-python:dynamic/trainstack:LinkedFolder"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with files, a link to a file and one to a folder, both elsewhere, and a link to itself."""
    folder, elsewhere = tmp_path / "photos", tmp_path / "elsewhere"
    for each in (folder / "cats", elsewhere / "dogs", folder / "empty"):
        each.mkdir(parents=True)
    (folder / "cats" / "one.jpg").write_text("one")
    (elsewhere / "dogs" / "two.jpg").write_text("two")
    (elsewhere / "list.txt").write_text("list")
    (folder / "dogs").symlink_to(elsewhere / "dogs")
    (folder / "list.txt").symlink_to(elsewhere / "list.txt")
    (folder / "again").symlink_to(folder)
    (folder / "nowhere").symlink_to(folder / "gone")
    return folder


FILES = {"cats/one.jpg": "one", "dogs/two.jpg": "two", "list.txt": "list"}


@pytest.fixture(autouse=True)
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with its data/, beside the folder."""
    root = tmp_path / "clone"
    (root / "data").mkdir(parents=True)
    monkeypatch.setattr(paths, "ROOT", root)
    monkeypatch.setattr(paths, "DATA", root / "data")
    return root


def no_link(*_given: object, **_options: object) -> None:
    raise OSError(errno.EXDEV, "Invalid cross-device link")


def held(target: Path) -> dict[str, str]:
    assert not [each for each in target.rglob("*") if each.is_symlink()], "it leads to nothing in the pods"
    return {str(each.relative_to(target)): each.read_text() for each in target.rglob("*") if each.is_file()}


def of(source: Path | str, **job: Any) -> Stack:
    return stack(job={**JOB, "data": [{"path": "/data", "folder": str(source)}], **job})


@pytest.fixture(params=[True, False], ids=["linked", "copied"])
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the folder is on the file system of the clone."""
    if not request.param:
        monkeypatch.setattr(os, "link", no_link)
    return bool(request.param)


def test_a_folder_is_linked_or_copied(source: Path, tmp_path: Path, links: bool) -> None:
    target = tmp_path / "target"
    fill(source, target)
    assert held(target) == FILES
    assert (target / "empty").is_dir()
    for name in FILES:
        assert (target / name).samefile(source / name) is links
        assert (target / name).stat().st_mtime_ns == (source / name).stat().st_mtime_ns


@pytest.mark.usefixtures("links")
def test_what_has_changed_is_filled_again(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    fill(source, target)
    mounted = target.stat().st_ino
    new = source / "cats" / "new.part"
    new.write_text("another")
    new.replace(source / "cats" / "one.jpg")
    for name in ("list.txt", "dogs"):
        (source / name).unlink()
    (source / "list.txt").mkdir()
    (source / "list.txt" / "a.txt").write_text("a")
    (source / "dogs").write_text("none")
    fill(source, target)
    assert held(target) == {"cats/one.jpg": "another", "list.txt/a.txt": "a", "dogs": "none"}
    assert target.stat().st_ino == mounted, "pods that have it mounted go on"
    assert (tmp_path / "elsewhere" / "list.txt").read_text() == "list"
    assert not list(tmp_path.glob("*.part"))


def test_what_is_there_is_not_copied_again_from_another_file_system(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(data_folders, "_is_same", lambda path, place: place.exists())
    fill(source, tmp_path / "target")
    monkeypatch.setattr(data_folders, "_link_or_copy", lambda path, place: copied.append(path.name))
    fill(source, tmp_path / "target")
    assert copied == []


def test_a_full_disk_is_told_and_the_next_call_goes_on(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"

    def full(path: Path, place: Path) -> None:
        place.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device", str(place))

    with monkeypatch.context() as patch:
        patch.setattr(data_folders, "_link_or_copy", full)
        with pytest.raises(DataFolderError, match=r"(?s)No space left on device.*fix: free space"):
            fill(source, target)
    assert not list(tmp_path.glob("*.part"))
    fill(source, target)
    assert held(target) == FILES


def contents(known: Stack) -> str:
    (found,) = data_folders.contents(known).values()
    return found


def test_another_file_size_or_time_is_another_content(source: Path) -> None:
    seen = [contents(of(source))]
    for change in (
        lambda: (source / "cats" / "three.jpg").write_text("three"),
        lambda: (source / "cats" / "three.jpg").write_text("longer"),
        lambda: os.utime(source / "cats" / "three.jpg", (1, 1)),
        lambda: (source / "empty").rmdir(),
    ):
        change()
        seen.append(contents(of(source)))
    assert len(set(seen)) == len(seen)
    assert contents(of(source)) == seen[-1]


@pytest.mark.parametrize("kind", ["existing", "microk8s"])
def test_elsewhere_a_folder_is_the_nodes(kind: str, tmp_path: Path) -> None:
    data = [{"path": "/data", "folder": str(tmp_path / "nowhere")}]
    known = stack(cluster={"kind": kind}, image={"reference": "x:1"}, job={**JOB, "data": data})
    assert data_folders.contents(known) == {}


def test_data_of_the_clone_is_mounted_as_it_is() -> None:
    assert data_folders.contents(of("data")) == data_folders.contents(stack()) == {}


def refused(folder: Path | str, **job: Any) -> str:
    with pytest.raises(ConfigError) as found:
        data_folders.contents(of(folder, **job))
    told = str(found.value)
    assert f"trainstack:job.data[0].folder = {str(folder)!r}"[:60] in told
    return told


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("nowhere", "file"):
        assert "fix: there is no folder" in refused(tmp_path / name)


def test_a_folder_with_the_clone_or_its_data_is_refused(tmp_path: Path, clone: Path) -> None:
    for folder in (tmp_path, clone, clone / "data", "../clone"):
        told = refused(folder)
        assert "allowed: a folder that neither is nor contains the clone" in told
        assert "`folder: data`" in told
    (tmp_path / "link").symlink_to(clone)
    assert "neither is nor contains the clone" in refused(tmp_path / "link")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "link").symlink_to(clone)
    assert f"fix: remove the link {tmp_path}/inner/link" in refused(tmp_path / "inner")


@pytest.mark.parametrize(
    ("mode", "user", "is_allowed"),
    [(0o644, 4242, True), (0o640, 4242, os.getgid() == 0), (0o600, 4242, False)],
)
def test_a_file_that_the_pods_cannot_read_is_refused(
    mode: int, user: int, is_allowed: bool, source: Path
) -> None:
    (source / "cats" / "one.jpg").chmod(mode)
    if is_allowed:
        assert contents(of(source, user=user))
        return
    told = refused(source, user=user)
    assert str(source / "cats" / "one.jpg") in told
    assert f"fix: let all users read it: chmod -R a+rX {source}" in told


def test_a_file_that_the_pods_user_owns_may_be_private(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source / "cats" / "one.jpg").chmod(0o600)
    if os.getuid():
        assert contents(of(source, user=os.getuid()))
    jobs = [{**JOB, "name": name, "user": user} for name, user in (("a", max(os.getuid(), 1)), ("b", 4242))]
    data = [{"path": "/data", "folder": str(source)}]
    known = stack(jobs=[{**each, "data": data} for each in jobs])
    with pytest.raises(ConfigError, match=r"jobs\[0\]\.data\[0\]\.folder"):
        data_folders.contents(known)


def test_a_folder_that_cannot_be_read_is_refused(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", closed)
    told = refused(source)
    assert "Permission denied" in told
    assert "fix: make it readable: chmod -R a+rX" in told


def test_the_resource_fills_finds_and_removes_its_folder(source: Path, clone: Path) -> None:
    provider = LinkedFolderProvider()
    props = {"source": str(source), "target": "data/.folders/dev/x", "contents": "1"}
    target = clone / props["target"]
    made = provider.create(props)
    assert held(target) == FILES
    outs = dict(made.outs or {})
    assert provider.read(made.id, outs).id == made.id
    assert not provider.diff(made.id, outs, props).changes
    again = provider.diff(made.id, outs, {**props, "contents": "2"})
    assert again.changes
    assert not again.replaces, "pods that have it mounted go on"
    (source / "cats" / "new.jpg").write_text("new")
    provider.update(made.id, outs, {**props, "contents": "2"})
    assert held(target) == {**FILES, "cats/new.jpg": "new"}
    provider.delete(made.id, outs)
    assert list((clone / "data").iterdir()) == []
    assert held(source / "cats") == {"one.jpg": "one", "new.jpg": "new"}
    assert not provider.read(made.id, outs).id
    assert provider.diff(made.id, outs, props).changes, "somebody may have emptied data/"
    provider.delete(made.id, outs)


def test_removing_one_folder_leaves_the_others(source: Path, clone: Path) -> None:
    provider = LinkedFolderProvider()
    targets = ["data/.folders/dev/x", "data/.folders/dev/y", "data/.folders/other/x"]
    for target in targets:
        provider.create({"source": str(source), "target": target, "contents": "1"})
    provider.delete("id", {"target": targets[0]})
    assert [target for target in targets if (clone / target).is_dir()] == targets[1:]


def test_the_folder_is_there_before_the_volume(recorder: Recorder, source: Path) -> None:
    configured(job={**JOB, "data": [{"path": "/photos", "folder": str(source)}]})
    run_program()
    (made,) = recorder.of(LINKED)
    assert made.inputs["source"] == str(source)
    assert made.name == made.inputs["target"].rpartition("/")[2]
    registered = [each.name for each in recorder.registered]
    assert registered.index(made.name) < registered.index(f"PersistentVolume/{made.name}")


@pytest.mark.parametrize(
    ("data", "looked_at"),
    [
        ([{"path": "/data", "folder": "data"}], "data"),
        ([{"path": "/data", "folder": "../photos"}, {"path": "/x", "claim": "a"}], "../photos"),
        ([{"path": "/x", "claim": "a"}, {"path": "/data", "folder": "data"}], None),
        ([], None),
    ],
)
def test_auto_looks_where_the_trainer_will(
    data: list[dict[str, Any]], looked_at: str | None, clone: Path, source: Path
) -> None:
    known = stack(job={**JOB, "data": data})
    found = dataset.looked_at(known, known.jobs[0])
    assert found == (None if looked_at is None else (clone / looked_at).resolve())


def test_auto_stays_where_the_trainer_looks_itself() -> None:
    known = stack(job={**JOB, "data": [{"path": "/x", "claim": "a"}]})
    assert dataset.of_jobs(known) == {JOB["name"]: Dataset.AUTO}
