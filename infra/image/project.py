"""A user's project as an image: the tag of its build, and the files that the image gets."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.config.build_context import TRAINER_IMAGE
from infra.image import ignored
from infra.process import CommandError

DOCKERFILE = f"""\
ARG {TRAINER_IMAGE}
FROM ${{{TRAINER_IMAGE}}}
COPY packages /opt/packages
COPY project /opt/project
USER root
RUN chmod g+w /opt/project
ENV PYTHONPATH=/opt/project:/opt/packages:/opt/trainstack
WORKDIR /opt/project
USER 1000:0
"""
"""Adds a project to our image, without BuildKit. Group 0, the jobs' group, may write to its folders. COPY keeps the
modes of a folder's content, but not the folder's own mode."""


@dataclass(frozen=True)
class ProjectBuild:
    """A build of a user's folder.

    Parameters:
        arguments: build arguments of the user's Dockerfile, without the trainer image.
        trainer: the tag of the trainer image on which the build starts; None if the user's Dockerfile does not use it.
        tag: a hash of the trainer's tag, the arguments, the Dockerfile and every file of the image.
    """

    arguments: Mapping[str, str]
    trainer: str | None
    tag: str


def build(
    folder: Path, dockerfile: Path | None, arguments: Mapping[str, str], trainer: str | None
) -> ProjectBuild:
    """The build of `folder`. Folder and `dockerfile` are hashed by content; their paths do not count."""
    if not dockerfile:
        _ensure_nothing_hidden(folder)
    own = dockerfile.read_text() if dockerfile else DOCKERFILE
    total = hashlib.sha256(json.dumps([trainer, own, dict(arguments)], sort_keys=True).encode())
    for path in ignored.files(folder):
        total.update(f"\0{path}\0{_content(folder / path)}".encode())
    return ProjectBuild(arguments, trainer, total.hexdigest()[:12])


def _ensure_nothing_hidden(folder: Path) -> None:
    """Raises CommandError for a module that Python would import instead of the trainer or a standard module.

    The project comes first on PYTHONPATH. The standard module `test` does not count: programs do not import it.
    """
    hidden = {"trainer", *sys.stdlib_module_names} - {"test"}
    for path in ignored.files(folder):
        is_module = len(path.parts) == 1 and path.suffix == ".py"
        is_package = len(path.parts) == 2 and path.name == "__init__.py"
        name = path.stem if is_module else path.parts[0]
        if (is_module or is_package) and name in hidden:
            whose = "the trainer" if name == "trainer" else f"Python's own module {name}"
            raise CommandError(
                f"image.context: {folder / path} hides {whose}, because the project comes first on PYTHONPATH\n"
                "  fix: rename it, or name it in .dockerignore"
            )


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    with path.open("rb") as file:  # it may be larger than the machine's memory
        return f"{is_executable(path)} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def is_executable(path: Path) -> bool:
    """Whether its owner may execute a file."""
    return bool(path.stat().st_mode & 0o100)


def copy(folder: Path, target: Path) -> None:
    """Copy the files of the image, with other modes: every user may read them, and group 0 may write to folders."""
    target.mkdir(parents=True)
    target.chmod(0o775)
    for path in ignored.files(folder):
        copy_file(folder / path, target / path)


def copy_file(source: Path, made: Path) -> None:
    """Copy a file or a link, and create its folder. Every user may read the copy; all may execute an executable."""
    for place in reversed(made.parents):
        if not place.exists():
            place.mkdir()
            place.chmod(0o775)
    shutil.copyfile(source, made, follow_symlinks=False)
    if not source.is_symlink():
        made.chmod(0o755 if is_executable(source) else 0o644)
