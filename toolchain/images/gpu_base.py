"""The base of the trainer image's target `gpu`, if PyTorch's published base cannot be pulled.

Our base is the CPU image's base with Debian's Python and PyPI's CUDA wheels. It has the same torch and the same CUDA as
the published base, pinned by hash in gpu-base.lock. Both bases exist only for x86_64: PyPI has no wheels of torch with
CUDA for other processors.
"""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from infra import agreed
from toolchain.images import base, scratch
from toolchain.machine import preflight
from toolchain.machine.engine import Engine
from toolchain.paths import LOGS, cache
from toolchain.progress import Step
from toolchain.steps import SetupError, run, step
from toolchain.tools import venv

LOCK = Path(__file__).with_name("gpu-base.lock")
INSTALL = Path(__file__).with_name("gpu-base.sh")
PROCESSOR = "x86_64"
IMAGE = (
    f"trainstack/base-gpu:{base.TRAINER_CPU.suite}-{scratch.digest(base.TRAINER_CPU.image, LOCK, INSTALL)}"
)
LOG = LOGS / "base-gpu.log"
# Measured: the wheels are 4.1 GB to download, 7 GB on the cache's disk, and twice that in the engine.
DOWNLOAD_GB = 4.1
UNPACKED_BYTES = 7 * preflight.GIB
PATIENCE_S = 300  # how long uv waits on a connection without data


def published() -> str:
    """The base image that Dockerfile_training names. Raises SetupError."""
    return base.published("GPU_BASE")


def known(engine: Engine) -> dict[str, str]:
    """The variable that names our base, if the engine has only our base and the user names none; else nothing."""
    if base.users_own(agreed.GPU_BASE) or not engine.has_image(IMAGE) or _has_published(engine):
        return {}
    return {agreed.GPU_BASE: IMAGE}


def ensure(engine: Engine) -> dict[str, str]:
    """As `known`, but make our base first if the published base cannot be pulled. Raises SetupError."""
    if base.users_own(agreed.GPU_BASE) or _has_published(engine):
        return {}
    if there := known(engine):
        return there
    with step("looking for the published base of the GPU image") as progress:
        if engine.succeeds("manifest", "inspect", published()):
            return {}
        progress.conclude(f"cannot be pulled; it is built from PyPI's CUDA wheels, {DOWNLOAD_GB} GB")
    return {agreed.GPU_BASE: base.made_once(engine, IMAGE, lambda: make(engine))}


def _has_published(engine: Engine) -> bool:
    return engine.succeeds("image", "inspect", published())


def make(engine: Engine) -> str:
    """Make our base in `engine`, even if the published base can be pulled; returns its name. Raises SetupError."""
    if platform.machine() != PROCESSOR:
        raise SetupError(
            f"the published base of the GPU image cannot be pulled, and PyPI has CUDA wheels only for {PROCESSOR}",
            f"give the engine access to registries, or name your own base in {agreed.GPU_BASE}",
        )
    place = cache() / "gpu-wheels"
    engines = Path(engine.output("info", "--format", "{{.DockerRootDir}}"))
    preflight.check_space([(place, UNPACKED_BYTES), (engines, UNPACKED_BYTES)])
    with step("base of the GPU image") as progress:
        progress.note("Debian")
        debian = base.ensure(engine, base.TRAINER_CPU, LOGS / "base.log")
        progress.note("the CUDA wheels")
        _install(engine, debian, _wheels(place), progress)
    return IMAGE


def _wheels(place: Path) -> Path:
    """Download the locked packages into a folder below `place`, outside of containers: these might not reach an index.

    Downloaded files stay in `place` for the next try.
    """
    packages = place / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    variables = {"UV_CACHE_DIR": str(place / "uv"), "UV_HTTP_TIMEOUT": str(PATIENCE_S)}
    words = venv.install_arguments(PROCESSOR, base.PYTHON, LOCK, packages)
    run([venv.find_uv(), *words], log=LOG, env=variables)
    return packages


def _install(engine: Engine, debian: str, packages: Path, progress: Step) -> None:
    """Make IMAGE from the image `debian` and the folder `packages`.

    When the container has a copy, the folder and uv's cache beside it are deleted. Otherwise the disk would hold three
    copies.
    """
    mounts = ["--volume", f"{packages}:/mnt/packages:ro", "--volume", f"{INSTALL}:/mnt/install.sh:ro"]
    container = engine.output("create", *mounts, debian, "sh", "/mnt/install.sh", base.PYTHON)
    try:
        progress.note("copying the packages into the engine")
        run([engine.docker, "start", "--attach", container], log=LOG, env=engine.env)
        shutil.rmtree(packages.parent)
        engine.output("commit", "--change", 'CMD ["bash"]', container, IMAGE)
    finally:
        engine.output("rm", "--force", "--volumes", container)
