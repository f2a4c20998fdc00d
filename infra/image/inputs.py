"""The inputs of the trainer image: the tag of a build, and the identity on which a run depends."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra import agreed
from infra.config import build_context, shell_variables
from infra.config.image import GPU_BASE, ImageConfig, Target
from infra.image import ignored, project

DOCKERFILE = "Dockerfile_training"
SOURCES = (DOCKERFILE, ".dockerignore", "trainer")
REPOSITORY = "trainstack/trainer"
BASES = {"CPU_BASE": agreed.CPU_BASE, GPU_BASE: agreed.GPU_BASE}


@dataclass(frozen=True)
class Build:
    """A build of Dockerfile_training. `tag` is a hash of target, build arguments and every file of the image."""

    target: Target
    arguments: Mapping[str, str]
    tag: str


def arguments(config: ImageConfig, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Build arguments that differ from the Dockerfile's defaults: the bases, and the preset.

    The gpu target copies the digits' table from a stage on the CPU base, so it needs both bases.
    """
    wanted = ["CPU_BASE", *([GPU_BASE] if config.target is Target.GPU else [])]
    found = {name: value for name, value in bases(environment).items() if name in wanted}
    return found | ({"PRESET": config.preset} if config.preset else {})


def bases(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Build argument -> the base that `environment` names for it."""
    return {name: environment[key] for name, key in BASES.items() if environment.get(key)}


def files(root: Path) -> list[Path]:
    """The files under SOURCES, in a stable order."""
    found: list[Path] = []
    for name in SOURCES:
        path = root / name
        below = path.rglob("*") if path.is_dir() else [path]
        found += [each for each in below if each.is_file() and not ignored.CACHES.intersection(each.parts)]
    return sorted(found)


def copy(root: Path, target: Path) -> None:
    """Copy the files under SOURCES to the folder `target`, so that every user may read them."""
    for path in files(root):
        project.copy_file(path, target / path.relative_to(root))


def content_hash(root: Path, target: Target, chosen: Mapping[str, str]) -> str:
    """12 hex digits over names, contents and executable bits of the files, the target and the build arguments."""
    total = hashlib.sha256(json.dumps([target.value, dict(chosen)], sort_keys=True).encode())
    for path in files(root):
        total.update(f"\0{path.relative_to(root)}\0{project.is_executable(path)}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()[:12]


def build(config: ImageConfig, root: Path, environment: Mapping[str, str] = os.environ) -> Build:
    """The build that `config` asks for, with the bases that `environment` names. `root`: the Dockerfile's folder."""
    chosen = arguments(config, environment)
    return Build(config.target, chosen, content_hash(root, config.target, chosen))


def project_build(config: ImageConfig, trainer: str, known: Mapping[str, str]) -> project.ProjectBuild | None:
    """The build of the user's project that `config` asks for; None without a project.

    Parameters:
        trainer: the tag of our image.
        known: build arguments that a user's Dockerfile may declare.
    """
    folder = build_context.folder(config.context, config.dockerfile)
    if folder is None:
        return None
    if config.dockerfile is None:
        return project.build(folder, None, {}, trainer)
    file = build_context.resolved(config.dockerfile)
    declared = build_context.declared(file)
    chosen = {name: value for name, value in known.items() if name in declared}
    return project.build(folder, file, chosen, trainer if build_context.TRAINER_IMAGE in declared else None)


def tag(config: ImageConfig, root: Path, environment: Mapping[str, str] = os.environ) -> str:
    """The tag of the jobs' image, from `build` and `project_build`."""
    trainer = build(config, root, environment).tag
    own = project_build(config, trainer, bases(environment))
    return own.tag if own else trainer


def identity(config: ImageConfig, root: Path, environment: Mapping[str, str] = os.environ) -> str:
    """The identity of the image, on which a run depends: the same on every machine, and for every name of the image.

    Parameters:
        config: the stack's section `image`.
        root: the folder of the Dockerfile. The Dockerfile names the bases by digest.
        environment: may name other bases for this machine's builds.

    Returns the digest of a ready-made image (its whole reference if that has none), else the hash of the build's
    inputs, with the files of the user's own project.
    """
    if config.reference:
        return digest_of(config.reference) or config.reference
    trainer = content_hash(root, config.target, _reviewed(arguments(config, environment), environment))
    own = project_build(config, trainer, _reviewed(bases(environment), environment))
    return own.tag if own else trainer


def _reviewed(chosen: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """`chosen` without set-up's own bases: the Dockerfile's bases count instead.

    Set-up builds bases if no registry can be reached.
    """
    theirs = shell_variables.of_shell(environment)
    return {name: value for name, value in chosen.items() if name not in BASES or BASES[name] in theirs}


def digest_of(reference: str) -> str:
    """`sha256:...` of a reference, empty without one."""
    return reference.partition("@")[2]
