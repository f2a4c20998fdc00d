"""Makes images in the container engine: Debian's root file systems, with mmdebstrap."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolchain.machine import packages
from toolchain.machine.engine import Engine
from toolchain.machine.locks import machine_wide
from toolchain.paths import ROOT
from toolchain.steps import SetupError, pipe

LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


@dataclass(frozen=True)
class RootFileSystem:
    """A Debian root file system, as mmdebstrap makes it.

    `variant` is mmdebstrap's. `hooks` are shell lines that run when the packages are unpacked; `$1` is the new root.
    """

    name: str
    suite: str
    variant: str = "minbase"
    include: Sequence[str] = field(default=())
    hooks: Sequence[str] = field(default=())

    @property
    def image(self) -> str:
        recipe = json.dumps([self.suite, self.variant, *self.include, *self.hooks, *LEFT_OUT])
        return f"trainstack/{self.name}:{self.suite}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"

    def command(self) -> list[str]:
        options = [f"--include={','.join(self.include)}"] if self.include else []
        options += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
        options += [f"--extract-hook={hook}" for hook in self.hooks]
        command = ["mmdebstrap", "--quiet", "--mode=root", f"--variant={self.variant}"]
        command += ['--aptopt=Acquire::Languages "none"', *options, self.suite, "-"]
        mirror = os.environ.get("TRAINSTACK_DEBIAN_MIRROR")
        return [*command, mirror] if mirror else command


def published(argument: str) -> str:
    """The base image that `ARG <argument>=` of Dockerfile_training names. Raises SetupError."""
    found = re.search(rf"^ARG {argument}=(\S+)", (ROOT / "Dockerfile_training").read_text(), re.MULTILINE)
    if not found:
        raise SetupError(
            f"Dockerfile_training names no {argument}", f"restore the line ARG {argument}=… from Git"
        )
    return found[1]


def users_own(variable: str) -> str:
    """The base image that the user names in `variable`; empty if there is none, or if it is ours (from `make env`)."""
    named = os.environ.get(variable, "")
    return "" if named.startswith("trainstack/") else named


def may_make(image: str) -> None:
    """Raise SetupError if this user cannot make `image` here."""
    if not packages.available() or os.geteuid() != 0:
        raise SetupError(
            f"image {image} is missing, and only root on Debian can build it",
            "run as root on Debian, or give the engine access to an image registry",
        )


def made_once(engine: Engine, image: str, make: Callable[[], object]) -> str:
    """Call `make` if the engine lacks `image`; returns `image`.

    Only one command on this machine makes it at a time: two builds at once would remove each other's intermediate
    images. Raises what `make` raises.
    """
    if engine.has_image(image):
        return image
    with machine_wide(f"image-{image.partition(':')[0].rpartition('/')[2]}"):
        if not engine.has_image(image):
            make()
    return image


def ensure(engine: Engine, system: RootFileSystem, log: Path) -> str:
    """Make the image of `system` if the engine lacks it; returns its name. Raises SetupError."""
    return made_once(engine, system.image, lambda: _make(engine, system, log))


def _make(engine: Engine, system: RootFileSystem, log: Path) -> None:
    may_make(system.image)
    if not packages.installed("mmdebstrap"):
        packages.install(["mmdebstrap"])
    load = [engine.docker, "import", "--change", "CMD /bin/bash", "-", f"{system.image}-partial"]
    pipe(system.command(), load, log=log, env=engine.env)
    engine.output("tag", f"{system.image}-partial", system.image)
    engine.output("rmi", f"{system.image}-partial")


TRAINER_CPU = RootFileSystem("base", "trixie")
PYTHON = "3.13"
"""The version of `python3` in TRAINER_CPU."""
