"""Small images on the trainer image's base, each a Dockerfile of Debian's packages with the argument BASE."""

from __future__ import annotations

from pathlib import Path

from toolchain.images import base, cluster_images, scratch
from toolchain.images.made_once import made_once
from toolchain.machine.engine import Engine
from toolchain.paths import LOGS
from toolchain.steps import run, step

# Tells the program, and `docker build`, the base to use.
VARIABLE = "TRAINSTACK_CPU_BASE"


def ensure(engine: Engine, name: str, dockerfile: Path) -> str:
    """The image `trainstack/<name>`, made where the engine has none of this Dockerfile on this base.

    The Dockerfile copies nothing: it is built without a folder. Raises SetupError.
    """
    under = trainer_base(engine)
    image = f"trainstack/{name}:{scratch.digest(dockerfile, under)}"
    return made_once(engine, image, lambda: _make(engine, name, image, dockerfile, under))


def trainer_base(engine: Engine) -> str:
    """The base of the trainer image's target `cpu`: the user's, ours where it is there, else the published one.

    Ours is made where that cannot be pulled. Raises SetupError.
    """
    if own := base.users_own(VARIABLE):
        return own
    if engine.has_image(base.TRAINER_CPU.image):
        return base.TRAINER_CPU.image
    published = base.published("CPU_BASE")
    for asked in ("image", "manifest"):
        if cluster_images.succeeds(engine, asked, "inspect", published):
            return published
    return base.ensure(engine, base.TRAINER_CPU, LOGS / "base.log")


def _make(engine: Engine, name: str, image: str, dockerfile: Path, under: str) -> None:
    command = [engine.docker, "build", "--quiet", "--build-arg", f"BASE={under}", "--tag", image, "-"]
    with step(f"image for {name}"):
        run(command, log=LOGS / f"{name}.log", env=engine.env, stdin=dockerfile.read_bytes())
