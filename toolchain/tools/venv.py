"""The project's `.venv`, made from requirements.lock by uv, and environments beside it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from infra import agreed, process
from toolchain.machine import locks, packages
from toolchain.paths import LOCAL, LOGS, ROOT, VENV, cache
from toolchain.steps import SetupError, StoppedError, run, step
from toolchain.tools.installed import which

UV_VERSION = "0.13.8"
LOCK = ROOT / "requirements.lock"
STAMP_NAME = ".trainstack"
STAMP = VENV / STAMP_NAME
_LOG = LOGS / "venv.log"


def wanted() -> str:
    """A hash of what the environment is made from: lock, project file, Python."""
    return _hash(VENV, LOCK, ROOT / "pyproject.toml")


def _hash(folder: Path, *sources: Path) -> str:
    parts = [each.read_bytes() for each in sources]
    parts.append(f"{platform.python_version()} {sys.base_prefix} {folder}".encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def is_complete() -> bool:
    """Whether `.venv` is complete and was made from the present lock."""
    return STAMP.exists() and STAMP.read_text() == wanted() and (VENV / "bin" / "python").exists()


def ensure() -> Path:
    """Make `.venv` and install the locked packages and the project into it; returns its `bin` folder.

    Two commands that ask at once wait for each other. Raises SetupError.
    """
    if not is_complete():
        with locks.held(_lock_file):
            _make_complete()
    return VENV / "bin"


def _lock_file() -> IO[str]:
    LOCAL.mkdir(exist_ok=True)
    return (LOCAL / "venv.lock").open("a")


def _make_complete() -> None:
    if is_complete():  # another command has made it meanwhile
        return
    with step("python packages") as progress:
        progress.note("finding uv")
        uv = find_uv()
        progress.note("installing what requirements.lock names")
        _sync(uv, VENV, LOCK, "--compile-bytecode", anew=not _begin(STAMP))
        _uv(uv, VENV, "pip", "install", "--no-deps", "--editable", ROOT)
        STAMP.write_text(wanted())


def _begin(stamp: Path) -> bool:
    """Take the stamp of an environment away before it is worked on; whether it was there, and the environment so whole.

    What was interrupted is made anew: uv takes a package for installed whose files are not all there.
    """
    was_whole = stamp.exists()
    stamp.unlink(missing_ok=True)
    return was_whole


def ensure_beside(folder: Path, lock: Path) -> Path:
    """Make `folder` an environment with the packages that `lock` names and no others; returns its `bin` folder.

    Two commands that ask at once wait for each other. Raises SetupError.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    stamp = folder / STAMP_NAME
    with locks.held(lambda: folder.with_name(f"{folder.name}.lock").open("a")):
        if not (stamp.exists() and stamp.read_text() == _hash(folder, lock)):
            with step(f"packages of {lock.name}"):
                _sync(find_uv(), folder, lock, anew=not _begin(stamp))
                stamp.write_text(_hash(folder, lock))
    return folder / "bin"


def install_arguments(machine: str, python: str, lock: Path, target: Path) -> list[str]:
    """The words for uv that put the packages of `lock` into `target`, for the Python of another Linux than this one.

    Parameters:
        machine: the processor's name, as a container engine tells it.
        python: its version, `3.13`.
    """
    system = ["--python-version", python, "--python-platform", f"{machine}-manylinux_2_28"]
    locked = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", str(lock)]
    return [
        "pip",
        "install",
        "--quiet",
        "--python",
        sys.executable,
        *system,
        *locked,
        "--target",
        str(target),
    ]


def command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of the program that Pulumi runs, in a process that can be ended by itself."""
    return [str(VENV / "bin" / "python"), "-m", module, *arguments]


@contextmanager
def program(variables: Mapping[str, str] | None = None) -> Iterator[None]:
    """Make `.venv`, and let the block import modules of the program that Pulumi runs.

    An import of them stands inside such a block: without `.venv` the packages are missing that they need. Raises
    SetupError, with the text of a ProgramError that leaves the block.

    Parameters:
        variables: those of the commands that the modules start, all of them; None for those of this process.
    """
    ensure()
    _make_importable(
        VENV / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    )
    try:
        with process.given(os.environ if variables is None else variables):
            yield
    except agreed.ProgramError as error:
        raise SetupError(str(error)) from None


def _make_importable(packages: Path) -> None:
    """Put `packages` before what the system has installed for its Python: the lock names other versions."""
    if str(packages) not in sys.path:
        theirs = (place for place, each in enumerate(sys.path) if each.endswith("-packages"))
        sys.path.insert(next(theirs, len(sys.path)), str(packages))


def _sync(uv: Path, folder: Path, lock: Path, *options: str, anew: bool) -> None:
    if anew or not _same_python(folder):
        _uv(uv, folder, "venv", "--seed", "--python", sys.executable, folder)
    _uv(uv, folder, "pip", "sync", *options, lock)


def _uv(uv: Path, folder: Path, *arguments: str | Path) -> None:
    """Run uv for the environment in `folder`: with what its cache holds and, where that is not all, with the index.

    The lock's hashes hold either way. Raises SetupError.
    """
    # The second try of `uv venv` finds what the first one left, and is to replace it.
    env = {"VIRTUAL_ENV": str(folder), "UV_PYTHON_DOWNLOADS": "never", "UV_VENV_CLEAR": "1", **uv_cache(uv)}
    command = [uv, *arguments]
    try:
        run(command, log=_LOG, cwd=ROOT, env={**env, "UV_OFFLINE": "1"})
    except StoppedError:
        raise
    except SetupError:
        run(command, log=_LOG, cwd=ROOT, env=env)


def uv_cache(uv: Path) -> dict[str, str]:
    """The variables for a uv of ours: its cache lies beside it, a user's own keeps its own."""
    return {"UV_CACHE_DIR": str(cache() / "uv")} if uv.is_relative_to(cache()) else {}


def _same_python(folder: Path) -> bool:
    python = folder / "bin" / "python"
    if not python.exists():
        return False
    done = subprocess.run([python, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
    return done.stdout.strip() == sys.version.strip()


def uv() -> Path:
    """The user's uv, or the one of the cache, which may not be there."""
    return which("uv") or _cached_uv()


def find_uv() -> Path:
    """The user's uv, or one from the package index in the cache. Raises SetupError where none can be had."""
    cached = _cached_uv()
    if (found := uv()).exists():
        return found
    _ensure_pip()
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="trainstack-uv-") as place:
        run([sys.executable, "-m", "venv", place], log=_LOG)
        run([Path(place) / "bin" / "pip", "install", "-q", "--no-cache-dir", f"uv=={UV_VERSION}"], log=_LOG)
        part = cached.with_name(f".uv-{os.getpid()}")
        shutil.copy2(Path(place) / "bin" / "uv", part)
        part.replace(cached)
    return cached


def _cached_uv() -> Path:
    return cache() / "tools" / f"uv-{UV_VERSION}" / "bin" / "uv"


def check_pip() -> None:
    """Raise SetupError where the environment needs a uv that is not here, and no pip can be had to install one."""
    if not (is_complete() or which("uv") or _cached_uv().exists() or _has_pip() or _may_install_pip()):
        raise SetupError("this Python has no ensurepip, so pip cannot be had", "install python3-venv, or uv")


def _ensure_pip() -> None:
    check_pip()
    if not _has_pip():
        packages.install(["python3-venv"])


def _has_pip() -> bool:
    """Debian ships `venv` without `ensurepip`, which is in a package of its own."""
    return importlib.util.find_spec("ensurepip") is not None


def _may_install_pip() -> bool:
    return os.geteuid() == 0 and packages.available()
