"""Resolves a user project's packages on this machine, because a container may reach no package index.

Packages of the image are not installed again. Instead, uv gets an empty wheel for each of them, with the same version
and the mark `+image`. If a requirement does not fit the image's version, uv explains the conflict.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

from infra.process import CommandError, output

PYPROJECT = "pyproject.toml"
REQUIREMENTS = "requirements.txt"
_FOLDER = re.compile(
    r"\s*(?:(?:-e|--editable)[\s=]+)?(?P<path>\.{1,2}(?:/[^\s#\[;]*)?)(?P<extras>(?:\[[^\]]*\])?)\s*(?:#.*)?"
)
"""A line of requirements.txt that names a folder by its path, `.`, `-e .` or `./lib[extra]`."""
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
"""The package name at the beginning of a line of requirements.txt."""
_MARK = "+image"
_VERSION = re.compile(r"\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?")
_ASK = """
import importlib.metadata, json, platform
found = {each.name: each.version for each in importlib.metadata.distributions() if each.name}
version = ".".join(platform.python_version_tuple()[:2])
print(json.dumps({"python": version, "machine": platform.machine(), "packages": found}))
"""


@dataclass(frozen=True)
class Contents:
    """The contents of an image: its Python (`3.13`), its machine (`x86_64`), and package -> version."""

    python: str
    machine: str
    packages: dict[str, str]


def contents(image: str) -> Contents:
    """Ask an image of the engine for its Python and its packages. Raises CommandError."""
    command = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "python3", image, "-c", _ASK]
    return Contents(**json.loads(output(*command).splitlines()[-1]))


def sources(folder: Path) -> list[str]:
    """The arguments of `uv pip install` for the requirements of `folder`; empty for a plain folder.

    A folder that can be built (setup.py, or a `build-system` in its pyproject.toml) is itself one of the packages. So
    is a folder whose requirements.txt names the project itself: an index may have a stranger's package of that name.
    """
    file = folder / PYPROJECT
    declared = tomllib.loads(file.read_text()) if file.is_file() else {}
    found: list[str] = []
    buildable = "build-system" in declared or (folder / "setup.py").is_file()
    if buildable or _asks_for(folder, declared.get("project", {}).get("name", "")):
        found.append(str(folder))
    elif "project" in declared:
        found += ["--requirement", str(file)]
    if (folder / REQUIREMENTS).is_file():
        found += ["--requirement", str(folder / REQUIREMENTS)]
    return found


def _asks_for(folder: Path, name: str) -> bool:
    """Whether the requirements.txt of `folder` has a line for the package `name`."""
    file = folder / REQUIREMENTS
    named = map(_NAME.match, file.read_text().splitlines() if file.is_file() else ())
    return _normal(name) in {_normal(each[1]) for each in named if each}


def install(folder: Path, target: Path, image: str) -> None:
    """Install the packages that the project in `folder` requires and `image` lacks, into the new folder `target`.

    Raises CommandError if uv is missing, if a package does not exist for the image's Python, or if a requirement does
    not fit a package of the image.

    Parameters:
        folder: a copy of the project; a build may write into it.
    """
    target.mkdir(mode=0o755)
    wanted = sources(folder)
    if not wanted:
        return
    known = contents(image)
    with tempfile.TemporaryDirectory(prefix="trainstack-packages-") as place:
        wheels, held = Path(place), Path(place) / "held.txt"
        held.write_text("".join(f"{_held(wheels, *each)}\n" for each in _plain(known.packages)))
        built: dict[Path, str] = {}
        if wanted[0] == str(folder):
            wanted[0] = _built(folder, wheels, built)
        _build_folders(folder, wheels, built)
        _uv_install(folder, wanted, target, known, held)
    for made in target.glob(f"*{_MARK}.dist-info"):
        shutil.rmtree(made)
    # The image needs no scripts with the path of this machine's Python, and no lock of uv.
    for private in (target / "bin", target / ".lock"):
        shutil.rmtree(private) if private.is_dir() else private.unlink(missing_ok=True)


def _plain(packages: dict[str, str]) -> list[tuple[str, str]]:
    """Names in the spelling of wheels, with public versions. A version that cannot be compared is left out."""
    public = {_normal(name): version.partition("+")[0] for name, version in packages.items()}
    return sorted((name, version) for name, version in public.items() if _VERSION.fullmatch(version))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _held(wheels: Path, name: str, version: str) -> str:
    """Write an empty wheel for a package of the image. Returns the requirement of exactly this wheel."""
    whole = f"{version}{_MARK}"
    info = f"{name}-{whole}.dist-info"
    with zipfile.ZipFile(wheels / f"{name}-{whole}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {whole}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return f"{name}=={whole}"


def _built(folder: Path, wheels: Path, built: dict[Path, str]) -> str:
    """The wheel of `folder`, built once: two files of one package are a conflict for uv."""
    place = folder.resolve()
    if place not in built:
        into = wheels / f"built-{len(built)}"
        made = ("uv", "build", "--quiet", "--wheel", "--python", sys.executable, "--out-dir", str(into))
        output(*made, str(folder))
        built[place] = str(next(into.glob("*.whl")))
    return built[place]


def _build_folders(folder: Path, wheels: Path, built: dict[Path, str]) -> None:
    """Replace folders in requirements.txt by their wheels: the image has only copied files."""
    file = folder / REQUIREMENTS
    if not file.is_file():
        return
    lines = file.read_text().splitlines()
    for number, line in enumerate(lines):
        named = _FOLDER.fullmatch(line)
        if named and (place := folder / named["path"]).is_dir():
            lines[number] = _built(place, wheels, built) + named["extras"]
    file.write_text("".join(f"{line}\n" for line in lines))


def _uv_install(folder: Path, wanted: list[str], target: Path, known: Contents, held: Path) -> None:
    """`folder`: the project, in which uv looks for the paths that requirements name."""
    system = ["--python", sys.executable, "--python-version", known.python]
    system += ["--python-platform", f"{known.machine}-unknown-linux-gnu", "--only-binary", ":all:"]
    from_image = ["--constraint", str(held), "--find-links", str(held.parent)]
    try:
        uv = ("uv", "--directory", str(folder), "pip", "install", "--quiet")
        output(*uv, "--target", str(target), *system, *from_image, *wanted)
    except CommandError as error:
        if _MARK not in str(error):
            raise
        raise CommandError(
            f"{error}\n  {_MARK} marks packages of the image, which cannot change\n"
            "  fix: let the requirement allow the image's version, or build your own image with image.dockerfile"
        ) from None
