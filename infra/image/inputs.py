"""What the trainer image is made from: the tag that names a build, and the identity that a run depends on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.config.image import ImageConfig, Target

DOCKERFILE = "Dockerfile_training"
SOURCES = (DOCKERFILE, ".dockerignore", "trainer")
REPOSITORY = "trainstack/trainer"
BASES = {"CPU_BASE": "TRAINSTACK_CPU_BASE", "GPU_BASE": "TRAINSTACK_GPU_BASE"}
# Debian's own base, made by toolchain/ where no registry can be reached, stands for the one that the Dockerfile names.
STAND_IN = "trainstack/"
IGNORED = {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


@dataclass(frozen=True)
class Build:
    """A build of Dockerfile_training. `tag` hashes target, build arguments and every file that goes in."""

    target: Target
    arguments: Mapping[str, str]
    tag: str


def arguments(config: ImageConfig, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Build arguments that differ from the Dockerfile's defaults: the bases, and the preset.

    The gpu target takes the digits' table from a stage on the CPU base, so it gets both.
    """
    wanted = ["CPU_BASE", *(["GPU_BASE"] if config.target is Target.GPU else [])]
    found = {base: environment[BASES[base]] for base in wanted if environment.get(BASES[base])}
    return found | ({"PRESET": config.preset} if config.preset else {})


def files(root: Path) -> list[Path]:
    """The files under SOURCES, in a stable order."""
    found: list[Path] = []
    for name in SOURCES:
        path = root / name
        below = path.rglob("*") if path.is_dir() else [path]
        found += [each for each in below if each.is_file() and not IGNORED.intersection(each.parts)]
    return sorted(found)


def content_hash(root: Path, target: Target, chosen: Mapping[str, str]) -> str:
    """12 hex digits over names, contents and executable bits of the files, the target and the build arguments."""
    total = hashlib.sha256(json.dumps([target.value, dict(chosen)], sort_keys=True).encode())
    for path in files(root):
        executable = bool(path.stat().st_mode & 0o100)
        total.update(f"\0{path.relative_to(root)}\0{executable}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()[:12]


def build(config: ImageConfig, root: Path, environment: Mapping[str, str] = os.environ) -> Build:
    """The build that `config` asks for, with the bases that `environment` names. `root`: the Dockerfile's folder."""
    chosen = arguments(config, environment)
    return Build(config.target, chosen, content_hash(root, config.target, chosen))


def identity(config: ImageConfig, root: Path, environment: Mapping[str, str] = os.environ) -> str:
    """What a run depends on of its image: the same on every machine, however the image is named.

    Parameters:
        config: the stack's section `image`.
        root: the folder of the Dockerfile. It names the bases by digest.
        environment: may name other bases for this machine's builds.

    Returns the digest of a ready-made image (its whole reference where that has none), else the hash of the build's
    inputs.
    """
    if config.reference:
        return digest_of(config.reference) or config.reference
    chosen = arguments(config, environment)
    other = {name: value for name, value in chosen.items() if not value.startswith(STAND_IN)}
    return content_hash(root, config.target, other)


def digest_of(reference: str) -> str:
    """`sha256:...` of a reference, empty without one."""
    return reference.partition("@")[2]
