"""Small images on the trainer image's base: each a Dockerfile of Debian's packages, with the argument BASE."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from toolchain.images import base, cluster_images, scratch
from toolchain.images.made_once import made_once
from toolchain.machine.engine import Engine
from toolchain.paths import LOGS
from toolchain.steps import run, step
from toolchain.tools import venv


def ensure(engine: Engine, name: str, dockerfile: Path, lock: Path | None = None) -> str:
    """The image `trainstack/<name>`, made where the engine has none of these files on this base. Raises SetupError.

    Parameters:
        lock: names Python packages, which the Dockerfile finds in a folder `packages`. Nothing else can be copied.
    """
    under = trainer_base(engine)
    sources = (dockerfile, lock) if lock else (dockerfile,)
    image = f"trainstack/{name}:{scratch.digest(*sources, under)}"
    return made_once(engine, image, lambda: _make(engine, image, under, dockerfile, lock))


def trainer_base(engine: Engine) -> str:
    """The base of the trainer image's target `cpu`: the user's, ours where it is there, else the published one.

    Ours is made where that cannot be pulled. Raises SetupError.
    """
    if own := base.users_own(cluster_images.CPU_BASE):
        return own
    if engine.has_image(base.TRAINER_CPU.image):
        return base.TRAINER_CPU.image
    published = base.published("CPU_BASE")
    for asked in ("image", "manifest"):
        if cluster_images.succeeds(engine, asked, "inspect", published):
            return published
    return base.ensure(engine, base.TRAINER_CPU, LOGS / "base.log")


def _make(engine: Engine, image: str, under: str, dockerfile: Path, lock: Path | None) -> None:
    name = image.partition(":")[0].rpartition("/")[2]
    with (
        step(f"image for {name}") as progress,
        tempfile.TemporaryDirectory(prefix="trainstack-image-") as made,
    ):
        folder = Path(made)
        shutil.copy2(dockerfile, folder / "Dockerfile")
        if lock:
            progress.note(f"the packages of {lock.name}")
            machine = engine.output("info", "--format", "{{.Architecture}}")
            venv.install_for(machine, base.PYTHON, lock, folder / "packages")
            progress.note("building it")
        options = ("--quiet", "--build-arg", f"BASE={under}", "--tag", image)
        run([engine.docker, "build", *options, folder], log=LOGS / f"{name}.log", env=engine.env)
