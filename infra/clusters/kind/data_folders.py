"""Folders of this machine as data of a kind cluster's pods: linked, or copied, below data/, which its nodes mount."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, UpdateResult

from infra import agreed, paths
from infra.config import ConfigError, Stack
from infra.config.build_context import resolved
from infra.config.data_sets import DataSet
from infra.config.errors import paragraph
from infra.dynamic import Props, Provider, missing, plain_props


class DataFolderError(RuntimeError):
    """A folder could not be linked or copied. The text is complete: it needs no traceback around it."""


@dataclass(frozen=True)
class DataFolder:
    """A folder of this machine.

    Parameters:
        name: of the volume that is made for it.
        key: how the stack file calls it.
        data: what stands there.
        users: ids of those who read it in the pods, in group 0.
    """

    name: str
    key: str
    data: DataSet
    users: frozenset[int]


def of_stack(stack: Stack) -> list[DataFolder]:
    """The folders of this machine that pods of `stack` see, but data/ itself: each once."""
    found: dict[str, DataFolder] = {}
    for place, job in enumerate(stack.jobs if stack.cluster.kind.has_our_nodes else ()):
        several = len(stack.jobs) > 1 and not (stack.matrix or stack.sweep)
        of_job = f"jobs[{place}]" if several else "job"
        for number, each in enumerate(job.data or ()):
            if each.folder and not each.is_usual:
                name = each.volume(stack.name)
                key = f"trainstack:{of_job}.data[{number}].folder"
                before = found.setdefault(name, DataFolder(name, key, each, frozenset()))
                found[name] = replace(before, users=before.users | {job.user})
    return list(found.values())


def contents(stack: Stack) -> dict[str, str]:
    """Name of the volume -> digest of the names, sizes and times of the files in its folder. Touches nothing.

    Raises ConfigError for a folder that is missing, holds the clone, or has something that this user, or the pods',
    cannot read.
    """
    return {each.name: _contents(stack.file, each) for each in of_stack(stack)}


def _contents(file: str, given: DataFolder) -> str:
    text = str(given.data.folder)
    folder = resolved(text)

    def refused(allowed: str, fix: str) -> ConfigError:
        return ConfigError(paragraph(file, given.key, text, allowed, fix))

    if not folder.is_dir():
        raise refused(
            "a folder of this machine", f"there is no folder {folder}: correct the path, or make it"
        )
    clone = "a folder that does not hold the clone, with its state and models, or its data/"
    if _holds_clone(folder):
        fix = f"name a folder further inside, or `folder: {agreed.DATA}` for data/ of the clone"
        raise refused(clone, fix)
    digest = hashlib.sha256()
    try:
        for name, path in files(folder):
            if _holds_clone(path):
                raise refused(clone, f"remove the link {folder / name}")
            found = path.stat()
            if stat.S_ISREG(found.st_mode) and not _is_readable(path, found, given.users):
                allowed = f"a folder whose files this user and the pods' can read; they cannot read {path}"
                raise refused(allowed, f"let all users read it: chmod -R a+rX {folder}")
            told = [found.st_size, found.st_mtime_ns] if stat.S_ISREG(found.st_mode) else []
            digest.update(os.fsencode(f"{name}\0{told}\0"))
    except OSError as error:
        allowed = f"a folder that this user can read: {error.filename}: {error.strerror}"
        raise refused(allowed, f"let this user read it: chmod -R a+rX {folder}") from None
    return digest.hexdigest()[:16]


def _holds_clone(folder: Path) -> bool:
    return any(each.is_relative_to(folder) for each in (paths.ROOT, paths.DATA.resolve()))


def _is_readable(path: Path, found: os.stat_result, users: Collection[int]) -> bool:
    by_pods = found.st_mode & stat.S_IROTH or (found.st_mode & stat.S_IRGRP and found.st_gid == 0)
    return os.access(path, os.R_OK) and bool(by_pods or {found.st_uid} == set(users))


def files(folder: Path, outer: frozenset[Path] = frozenset()) -> Iterator[tuple[str, Path]]:
    """All folders and files below `folder`, a folder before what is in it: the name from there, and the path.

    A link counts as what it leads to, since that is not in the pods, and one to a folder around it as nothing. What is
    neither file nor folder is left out. Raises OSError.
    """
    outer |= {folder.resolve()}
    for each in sorted(os.scandir(folder), key=lambda each: each.name):
        path = Path(each.path).resolve()
        if path.is_dir() and path not in outer:
            yield each.name, path
            yield from ((f"{each.name}/{name}", inner) for name, inner in files(path, outer))
        elif path.is_file():
            yield each.name, path


def fill(source: Path, target: Path) -> None:
    """Make `target` hold what `source` does, by hard links, or by copies where there can be none.

    What is there already stays. Pods that have the folder mounted go on. Raises DataFolderError; the next call goes on.
    """
    part = target.with_name(f"{target.name}.part")
    try:
        wanted = dict(files(source))
        target.mkdir(parents=True, exist_ok=True)
        for place in sorted(target.rglob("*"), reverse=True):
            meant = wanted.get(str(place.relative_to(target)))
            if meant is None or meant.is_dir() is not place.is_dir():
                place.rmdir() if place.is_dir() else place.unlink()
        for name, path in wanted.items():
            place = target / name
            if path.is_dir():
                place.mkdir(exist_ok=True)
                place.chmod(0o755)
            elif not _is_same(path, place):
                part.unlink(missing_ok=True)
                _link_or_copy(path, part)
                part.replace(place)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise DataFolderError(
            f"cannot link or copy {source} to {target}: {error.strerror} ({error.filename})\n"
            f"  fix: make room, or let this user read the one and write the other, and run the same command again"
        ) from None


def _is_same(path: Path, place: Path) -> bool:
    """Whether `place` is a link to the file, or a copy of it from another file system."""
    if not place.exists():
        return False
    one, other = path.stat(), place.stat()
    is_copy = one.st_dev != other.st_dev and (one.st_size, one.st_mtime_ns) == (
        other.st_size,
        other.st_mtime_ns,
    )
    return is_copy or path.samefile(place)


def _link_or_copy(path: Path, place: Path) -> None:
    """Links do not lead to other file systems, nor, for most users, to files of others."""
    try:
        os.link(path, place)
    except OSError:
        shutil.copy2(path, place)


class LinkedFolderProvider(Provider):
    """Properties: `source`, as the stack file has it; `target` in the clone; `contents`, whose change fills it anew."""

    replaced_by = ("target",)
    updated_by = ("source", "contents")

    def create(self, props: Props) -> CreateResult:
        return CreateResult(props["target"], filled(props))

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        return UpdateResult(filled(_news))

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Somebody may have emptied data/."""
        found = super().diff(_id, _olds, _news)
        found.changes = found.changes or not paths.resolved(_olds["target"]).is_dir()
        return found

    def read(self, id_: str, props: Props) -> ReadResult:
        return ReadResult(id_, props) if paths.resolved(props["target"]).is_dir() else missing()

    def delete(self, _id: str, _props: Props) -> None:
        """The links and copies go; the folder itself stays as it is."""
        target = paths.resolved(_props["target"])
        shutil.rmtree(target, ignore_errors=True)
        for outer in (target.parent, target.parent.parent):
            if outer.is_dir() and not any(outer.iterdir()):
                outer.rmdir()


def filled(props: Props) -> Props:
    """What the state keeps. Raises DataFolderError."""
    fill(resolved(props["source"]), paths.resolved(props["target"]))
    return plain_props(props)


class LinkedFolder(Resource, module="trainstack", name="LinkedFolder"):
    """A folder of this machine below data/ of the clone. It outlives the cluster, and goes with the stack."""

    def __init__(self, name: str, props: Props, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(LinkedFolderProvider(), name, props, opts)


def register(stack: Stack, found: Mapping[str, str]) -> list[pulumi.Resource]:
    """Register what the volumes of folders of this machine wait for. `found`: what `contents` returns."""
    return [
        LinkedFolder(
            each.name,
            {
                "source": str(each.data.folder),
                "target": paths.portable(paths.DATA / each.data.below_data(stack.name)),
                "contents": found[each.name],
            },
        )
        for each in of_stack(stack)
    ]
