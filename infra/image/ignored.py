"""The files of a folder that go into an image: all files except the ones that .dockerignore excludes.

The rules are Docker's: https://docs.docker.com/build/concepts/context/#dockerignore-files
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from infra.process import CommandError

FILE = ".dockerignore"
CACHES = {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
ALWAYS = CACHES | {".git", ".venv"}
"""Folders that change although the project does not. They never go into an image."""
_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|\[\^?[^]]+\]|\\.|.")


@dataclass(frozen=True)
class Rule:
    """A line of a .dockerignore. `keeps`: whether it begins with an exclamation mark."""

    pattern: re.Pattern[str]
    keeps: bool

    def concerns(self, path: PurePosixPath) -> bool:
        """Whether the line names `path`, or a folder around it."""
        return any(self.pattern.fullmatch(str(each)) for each in (path, *path.parents))


def rules(text: str) -> list[Rule]:
    """The rules of a .dockerignore in the order of its lines."""
    lines = [line.strip() for line in text.splitlines() if not line.startswith("#")]
    return [_rule(line) for line in lines if line.strip("! ")]


def _rule(line: str) -> Rule:
    pattern = os.path.normpath(line.removeprefix("!").strip()).lstrip("/")
    return Rule(re.compile("".join(map(_expression, _PARTS.findall(pattern)))), line.startswith("!"))


def _expression(part: str) -> str:
    wildcards = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if part.startswith("[") and len(part) > 1:
        return part
    return wildcards.get(part) or re.escape(part[-1])


def is_ignored(path: PurePosixPath, given: list[Rule]) -> bool:
    """Whether the last rule for `path` excludes it. `path`: relative to the folder."""
    concerned = [rule for rule in given if rule.concerns(path)]
    return bool(concerned) and not concerned[-1].keeps


def files(folder: Path) -> list[Path]:
    """The files and symbolic links of `folder` that go into an image, relative to it, in a stable order.

    Raises CommandError for a file that this user may not read, or whose name is not UTF-8.
    """
    ignoring = folder / FILE
    _ensure_usable(folder, Path())
    if ignoring.is_file():
        _ensure_usable(folder, Path(FILE))
    # Names of files need not be UTF-8, also in .dockerignore.
    text = ignoring.read_text("utf-8", "surrogateescape") if ignoring.is_file() else ""
    given = rules(text)
    closed: list[Path] = []
    found = sorted(path for path in _below(folder, closed) if not is_ignored(PurePosixPath(path), given))
    for path in [*found, *(each for each in closed if not is_ignored(PurePosixPath(each), given))]:
        _ensure_usable(folder, path)
    return found


def _ensure_usable(folder: Path, path: Path) -> None:
    """Raises CommandError for a name that is not UTF-8, or a file that this user may not read."""
    whole = folder / path
    told = os.fsencode(whole).decode(errors="backslashreplace")
    fix = f"or name it in {FILE}" if path.parts else "or name another folder"
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise CommandError(
            f"image.context: the name of {told} is not UTF-8\n  fix: rename it, {fix}"
        ) from error
    if not whole.is_symlink() and not _readable(whole):
        raise CommandError(f"image.context: you may not read {told}\n  fix: make it readable for you, {fix}")


def _readable(path: Path) -> bool:
    """Whether this user may read it. A file that was deleted meanwhile counts as readable: its use fails later."""
    return not path.exists() or os.access(path, os.R_OK | os.X_OK if path.is_dir() else os.R_OK)


def _below(folder: Path, closed: list[Path]) -> Iterator[Path]:
    """The content of a folder. Folders that cannot be read are added to `closed`."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ALWAYS]
        closed += [
            path.relative_to(folder)
            for path in (Path(place) / name for name in folders)
            if not path.is_symlink() and not _readable(path)
        ]
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        for path in (Path(place) / name for name in [*names, *links]):
            if path.is_symlink() or path.is_file():
                yield path.relative_to(folder)
