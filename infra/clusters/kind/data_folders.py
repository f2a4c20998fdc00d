"""Folders of this machine as data for a kind cluster's pods: linked or copied below data/, which the nodes mount."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pulumi
from pulumi.dynamic import CreateResult, ReadResult

from infra import agreed, paths
from infra.config import ConfigError, Stack
from infra.config.build_context import resolved
from infra.config.data_sets import DataSet
from infra.config.errors import not_allowed
from infra.dynamic import DynamicResource, Props, Provider, missing, plain_props


class DataFolderError(RuntimeError):
    """A folder could not be linked or copied. The text is complete: it needs no traceback."""


@dataclass(frozen=True)
class DataFolder:
    """A folder of this machine.

    Parameters:
        name: of its volume.
        key: its key in the stack file.
        data: the value of that key.
        users: ids of the users, in group 0, that read it in the pods.
    """

    name: str
    key: str
    data: DataSet
    users: frozenset[int]


def of_stack(stack: Stack) -> list[DataFolder]:
    """The folders of this machine that pods of `stack` see, except data/ itself: each once."""
    found: dict[str, DataFolder] = {}
    for place, job in enumerate(stack.jobs if stack.cluster.kind.has_our_nodes else ()):
        for number, each in enumerate(job.data or ()):
            if each.folder and not each.is_usual:
                name = each.volume(stack.name)
                key = stack.key(place, f"data[{number}].folder")
                before = found.setdefault(name, DataFolder(name, key, each, frozenset()))
                found[name] = replace(before, users=before.users | {job.user})
    return list(found.values())


def contents(stack: Stack) -> dict[str, str]:
    """Name of the volume -> digest of the names, sizes and times of the files in its folder. Changes nothing.

    Raises ConfigError for a folder that is missing, contains the clone, or has a file that this user or the pods' users
    cannot read.
    """
    return {each.name: _contents(stack.file, each) for each in of_stack(stack)}


def _contents(file: str, given: DataFolder) -> str:
    text = str(given.data.folder)
    folder = resolved(text)

    def refused(allowed: str, fix: str) -> ConfigError:
        return not_allowed(file, given.key, text, allowed, fix)

    if not folder.is_dir():
        raise refused(
            "a folder of this machine", f"there is no folder {folder}: correct the path, or create it"
        )
    clone = "a folder that neither is nor contains the clone or its data/"
    if _holds_clone(folder):
        fix = f"name another folder, or write `folder: {agreed.DATA}` for data/ of the clone"
        raise refused(clone, fix)
    digest = hashlib.sha256()
    try:
        for name, path in files(folder):
            if _holds_clone(path):
                raise refused(clone, f"remove the link {folder / name}")
            found = path.stat()
            if stat.S_ISREG(found.st_mode) and not _is_readable(path, found, given.users):
                allowed = (
                    f"a folder whose files you and the pods' users can read; you or they cannot read {path}"
                )
                raise refused(allowed, f"let all users read it: chmod -R a+rX {folder}")
            told = [found.st_size, found.st_mtime_ns] if stat.S_ISREG(found.st_mode) else []
            digest.update(os.fsencode(f"{name}\0{told}\0"))
    except OSError as error:
        allowed = f"a folder that you can read: {error.filename}: {error.strerror}"
        raise refused(allowed, f"make it readable: chmod -R a+rX {folder}") from None
    return digest.hexdigest()[:16]


def _holds_clone(folder: Path) -> bool:
    return any(each.is_relative_to(folder) for each in (paths.ROOT, paths.DATA.resolve()))


def _is_readable(path: Path, found: os.stat_result, users: Collection[int]) -> bool:
    by_pods = found.st_mode & stat.S_IROTH or (found.st_mode & stat.S_IRGRP and found.st_gid == 0)
    return os.access(path, os.R_OK) and bool(by_pods or {found.st_uid} == set(users))


def files(folder: Path, outer: frozenset[Path] = frozenset()) -> Iterator[tuple[str, Path]]:
    """Name (relative to `folder`) and path of all folders and files below `folder`, a folder before its content.

    A symbolic link counts as its target, because the pods do not have the target. A link to an outer folder is skipped,
    and so is an entry that is neither file nor folder. Raises OSError.
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
    """Give `target` the content of `source`, by hard links, or by copies if links are impossible.

    Files of `target` that are equal stay. Pods that mount the folder keep running. Raises DataFolderError; the next
    call continues.
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
            f"  fix: free space, or make {source} readable and {target} writable for you; then run the command again"
        ) from None


def _is_same(path: Path, place: Path) -> bool:
    """Whether `place` is a link to the file, or a copy from another file system."""
    if not place.exists():
        return False
    one, other = path.stat(), place.stat()
    is_equal = (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)
    return (is_equal and one.st_dev != other.st_dev) or path.samefile(place)


def _link_or_copy(path: Path, place: Path) -> None:
    """A hard link cannot lead to another file system, nor, for most users, to another user's file."""
    try:
        os.link(path, place)
    except OSError:
        shutil.copy2(path, place)


class LinkedFolderProvider(Provider):
    """Properties: `source`, from the stack file; `target` in the clone; `contents`: a change fills the target again."""

    replaced_by = ("target",)
    updated_by = ("source", "contents")

    def create(self, props: Props) -> CreateResult:
        fill(resolved(props["source"]), paths.resolved(props["target"]))
        return CreateResult(props["target"], plain_props(props))

    def is_outdated(self, olds: Props, news: Props) -> bool:
        """The target may also be missing, because somebody has emptied data/."""
        return super().is_outdated(olds, news) or not paths.resolved(olds["target"]).is_dir()

    def read(self, id_: str, props: Props) -> ReadResult:
        return ReadResult(id_, props) if paths.resolved(props["target"]).is_dir() else missing()

    def delete(self, _id: str, _props: Props) -> None:
        """Delete the links and copies. The source folder stays unchanged."""
        target = paths.resolved(_props["target"])
        shutil.rmtree(target, ignore_errors=True)
        for outer in (target.parent, target.parent.parent):
            if outer.is_dir() and not any(outer.iterdir()):
                outer.rmdir()


class LinkedFolder(DynamicResource, provider=LinkedFolderProvider):
    """A folder below data/ of the clone, linked or copied from a folder of this machine.

    It outlives the cluster, and is deleted with the stack.
    """


def register(stack: Stack, found: Mapping[str, str]) -> list[pulumi.Resource]:
    """Register the folders. Returns their resources, for which the volumes wait. `found`: what `contents` returns."""
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
