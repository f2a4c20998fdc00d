"""Finds Pulumi, kind and kubectl.

The user's own program is used if the version that it prints is good. The user's Pulumi must also have its Python
language host. Otherwise we build the program.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from toolchain.paths import LINKS, VENV, cache
from toolchain.tools import build

Version = tuple[int, int]
ANSWER_S = 20


@dataclass(frozen=True)
class Rule:
    """How a tool prints its version, and which versions are good."""

    arguments: tuple[str, ...]
    pattern: str
    good: Callable[[Version], bool]


# We use kubectl to read objects and to render. Minor versions before 1.21 cannot render: their kustomize is too old.
_KUBECTL_VERSION = r'"gitVersion": "v(\d+)\.(\d+)'
RULES = {
    "pulumi": Rule(("version",), r"v?(\d+)\.(\d+)", lambda v: (3, 200) <= v < (4, 0)),
    "kind": Rule(("version", "-q"), r"v?(\d+)\.(\d+)", lambda v: v >= (0, 24)),
    "kubectl": Rule(
        ("version", "--client", "-o", "json"),
        _KUBECTL_VERSION,
        lambda v: (1, 21) <= v < (2, 0),
    ),
}

# Program -> the folder of toolchain/tools/go that builds it.
MODULES = {"pulumi": "pulumi", "kind": "kind", "kubectl": "kubernetes"}


def user_path() -> str:
    """PATH without the folders that `make env`, of this clone or another, has added."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if not _ours(Path(folder)))


def _ours(folder: Path) -> bool:
    if LINKS.parts[-2:] in (folder.parts[-3:-1], folder.parts[-2:]):
        return True
    if folder.name != "bin":
        return False
    environment = folder.parent.name == VENV.name and (folder.parents[1] / LINKS.parent.name).is_dir()
    return environment or folder.is_relative_to(cache())


def which(name: str) -> Path | None:
    """The user's own program `name`."""
    path = shutil.which(name, path=user_path())
    return Path(path) if path else None


def version_of(program: Path, rule: Rule) -> Version | None:
    """Major and minor version that `program` prints; None if it prints none, fails, or hangs."""
    try:
        there = program.stat()
    except OSError:
        return None
    return _printed(program, rule, (there.st_ino, there.st_size, there.st_mtime_ns))


@functools.cache
def _printed(program: Path, rule: Rule, _file: tuple[int, int, int]) -> Version | None:
    """As `version_of`, but cached until the file changes, because a program needs time to print its version."""
    quiet = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        done = subprocess.run(
            [program, *rule.arguments], capture_output=True, text=True, timeout=ANSWER_S, env=quiet
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(rule.pattern, done.stdout)
    return (int(found[1]), int(found[2])) if found and done.returncode == 0 else None


def find(name: str) -> Path | None:
    """The user's own `name` if its version is good; else None. Pulumi also needs its Python language host."""
    program = which(name)
    if program is None:
        return None
    version = version_of(program, RULES[name])
    if version is None or not RULES[name].good(version):
        return None
    if name == "pulumi" and language_host(program) is None:
        return None
    return program


def language_host(pulumi: Path) -> Path | None:
    """Pulumi's own Python language host, on PATH or in the real folder of `pulumi`."""
    name = "pulumi-language-python"
    beside = pulumi.resolve().parent / name
    return which(name) or (beside if beside.exists() else None)


@dataclass(frozen=True)
class Choice:
    """The program `name`: `own` is the user's own, or None if we build it."""

    name: str
    own: Path | None

    def program(self) -> Path:
        """The program's path. It is built first if the user has none."""
        if self.own:
            return self.own
        return build.build(MODULES[self.name], self.name) / self.name

    @property
    def is_available(self) -> bool:
        return self.own is not None or build.built(MODULES[self.name], self.name) is not None


def choose() -> dict[str, Choice]:
    """The choice for each program, from the user's PATH."""
    return {name: Choice(name, find(name)) for name in MODULES}


def missing(choices: Mapping[str, Choice], nodes: bool) -> set[str]:
    """The names of `choices` that have to be built. kind counts only if we create the cluster's `nodes`."""
    return {name for name, each in choices.items() if not each.is_available and (nodes or name != "kind")}
