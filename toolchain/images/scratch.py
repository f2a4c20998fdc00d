"""Images with one static program, built from `scratch`."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolchain.images.base import made_once
from toolchain.machine import packages
from toolchain.machine.engine import Engine
from toolchain.steps import SetupError, run


def digest(*parts: str | Path) -> str:
    """The first 12 hex digits of a hash over strings and the contents of files."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        total.update(b"\0")
    return total.hexdigest()[:12]


def copy_executables(files: Mapping[str, Path], root: Path) -> None:
    """Copy executables to their paths (no leading slash) below `root`. A link to another of them stays a link."""
    for target, source in files.items():
        path = root / target
        path.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink() and source.parent / source.readlink() in files.values():
            path.symlink_to(source.readlink())
            continue
        shutil.copyfile(source, path)
        path.chmod(0o755)


def build(
    engine: Engine,
    image: str,
    files: Mapping[str, Path],
    log: Path,
    *,
    base: str = "scratch",
    lines: Sequence[str] = (),
) -> str:
    """Build `image` from `base` and `files` (path in the image -> file here), with more Dockerfile `lines`."""
    with tempfile.TemporaryDirectory(prefix="trainstack-image-") as folder:
        context = Path(folder)
        copy_executables(files, context / "root")
        dockerfile = [
            f"FROM {base}",
            "COPY root/ /",
            "ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            *lines,
        ]
        (context / "Dockerfile").write_text("\n".join(dockerfile) + "\n")
        run([engine.docker, "build", "--quiet", "--tag", image, context], log=log, env=dict(engine.env))
    return image


def registry(engine: Engine, program: Path, log: Path) -> str:
    """The registry's image. The registry listens on :5000 in plain HTTP, and stores images below /var/lib/registry."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "config.yml"
        settings.write_text(REGISTRY_SETTINGS)
        image = f"trainstack/registry:{digest(program, settings)}"
        files = {"usr/local/bin/registry": program, "etc/distribution/config.yml": settings}
        start = 'ENTRYPOINT ["/usr/local/bin/registry", "serve", "/etc/distribution/config.yml"]'
        lines = ["VOLUME /var/lib/registry", start]
        return made_once(engine, image, lambda: build(engine, image, files, log, lines=lines))


REGISTRY_SETTINGS = """\
version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: /var/lib/registry}}
http: {addr: ":5000"}
"""


def operator_image(name: str, program: Path) -> str:
    """The image name for `program`, an operator called `name`.

    The name of the build's folder and the size stand for the content: that folder's name is a hash of the source.
    """
    return f"trainstack/{name}:{digest(f'{program.parents[1].name} {program.stat().st_size}')}"


def operator(engine: Engine, name: str, program: Path, log: Path) -> str:
    """The image of an operator called `name`, with the layout of upstream's image: the program is /manager."""
    image = operator_image(name, program)
    files, lines = {"manager": program}, ["USER 65532", 'ENTRYPOINT ["/manager"]']
    return made_once(engine, image, lambda: build(engine, image, files, log, lines=lines))


# Since Debian 13, packages have no files in /bin.
_PROGRAMS = ("usr/bin", "bin")


def debian_program(package: str, name: str, cache: Path) -> Path:
    """A static program from a Debian package, unpacked below `cache` and not installed. Raises SetupError."""
    places = [cache / package / folder / name for folder in _PROGRAMS]
    if not any(place.exists() for place in places):
        packages.unpack(package, cache / package)
    found = next((place for place in places if place.exists()), None)
    if found is None:
        raise SetupError(f"Debian's package {package} has no {' or '.join(_PROGRAMS)}/{name}")
    return found


def init(engine: Engine, cache: Path, log: Path) -> str:
    """Busybox with a shell and nc, for the init container that waits for rank 0."""
    program = debian_program("busybox-static", "busybox", cache)
    image = f"trainstack/busybox:{digest(program)}"
    files, lines = {"bin/busybox": program}, ['RUN ["/bin/busybox", "--install", "/bin"]', 'CMD ["sh"]']
    return made_once(engine, image, lambda: build(engine, image, files, log, lines=lines))
