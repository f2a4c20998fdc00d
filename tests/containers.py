"""Debian's programs in containers of their own, without a network: of this machine they need the engine alone."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra import agreed
from tests.e2e.waiting import HANG_S
from toolchain import steps
from toolchain.images import base, scratch
from toolchain.machine.engine import Engine
from toolchain.paths import LOGS

HERE = Path(__file__).resolve().parent
GIVEN = "/given"
"""Where a container finds the files that it is given."""
ALONE = ("--init", "--network", "none", "--tmpfs", "/tmp:exec,mode=1777")


def image(engine: Engine, suite: str) -> str:
    """The image that tests/<suite>/Dockerfile describes: Debian's packages on the trainer image's base, as BASE."""
    dockerfile, under = HERE / suite / "Dockerfile", _base(engine)
    name = f"trainstack/{suite}:{scratch.digest(dockerfile, under)}"
    command = [engine.docker, "build", "--quiet", "--build-arg", f"BASE={under}", "--tag", name]

    def make() -> None:
        with tempfile.TemporaryDirectory() as empty:  # nothing can be copied
            steps.run([*command, "--file", dockerfile, empty], log=LOGS / f"{suite}.log", env=engine.env)

    return base.made_once(engine, name, make)


def _base(engine: Engine) -> str:
    """The user's base of the trainer image, ours where it is there, else the published one; made where none is."""
    if own := base.users_own(agreed.CPU_BASE):
        return own
    if engine.has_image(base.TRAINER_CPU.image):
        return base.TRAINER_CPU.image
    published = base.published("CPU_BASE")
    if any(engine.succeeds(asked, "inspect", published) for asked in ("image", "manifest")):
        return published
    return base.ensure(engine, base.TRAINER_CPU, LOGS / "base.log")


def give(folder: Path, files: Mapping[str, Path | str]) -> None:
    """Write these files, by name -> file or text, for anybody to read: a container's user is another."""
    folder.chmod(0o755)
    for name, given in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(given.encode() if isinstance(given, str) else given.read_bytes())
        (folder / name).chmod(0o644)


def run(
    engine: Engine, suite: str, command: Sequence[str], files: Mapping[str, Path | str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `command` in a container of its own to its end, with `files` below GIVEN and `given` to read."""
    with tempfile.TemporaryDirectory(prefix="trainstack-given-") as folder:
        give(Path(folder), files)
        mount = ("--volume", f"{folder}:{GIVEN}:ro")
        return subprocess.run(
            [engine.docker, "run", "--rm", "--interactive", *ALONE, *mount, image(engine, suite), *command],
            env={**os.environ, **engine.env},
            input=given,
            capture_output=True,
            text=True,
            timeout=HANG_S,
        )
