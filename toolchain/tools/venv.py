"""The project's `.venv`, which uv makes from requirements.lock, and other environments."""

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
    """A hash of the environment's sources: lock, project file, Python."""
    return _hash(VENV, LOCK, ROOT / "pyproject.toml")


def _hash(folder: Path, *sources: Path) -> str:
    parts = [each.read_bytes() for each in sources]
    parts.append(f"{platform.python_version()} {sys.base_prefix} {folder}".encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def is_complete() -> bool:
    """Whether `.venv` is complete and made from the current lock."""
    return STAMP.exists() and STAMP.read_text() == wanted() and (VENV / "bin" / "python").exists()


def ensure() -> Path:
    """Make `.venv` and install the locked packages and the project into it; returns its `bin` folder.

    Two commands at once wait for each other. Raises SetupError.
    """
    if not is_complete():
        with locks.held(LOCAL / "venv.lock"):
            _make_complete()
    return VENV / "bin"


def _make_complete() -> None:
    if is_complete():  # another command has made it meanwhile
        return
    with step("python packages") as progress:
        progress.note("finding uv")
        uv = find_uv()
        progress.note("installing what requirements.lock names")
        _sync(uv, VENV, LOCK, "--compile-bytecode")
        _uv(uv, VENV, "pip", "install", "--no-deps", "--editable", ROOT)
        STAMP.write_text(wanted())


def ensure_beside(folder: Path, lock: Path) -> Path:
    """Make `folder` an environment with exactly the packages of `lock`; returns its `bin` folder.

    Two commands at once wait for each other. Raises SetupError.
    """
    stamp = folder / STAMP_NAME
    with locks.held(folder.with_name(f"{folder.name}.lock")):
        if not (stamp.exists() and stamp.read_text() == _hash(folder, lock)):
            with step(f"packages of {lock.name}"):
                _sync(find_uv(), folder, lock)
                stamp.write_text(_hash(folder, lock))
    return folder / "bin"


def install_arguments(machine: str, python: str, lock: Path, target: Path) -> list[str]:
    """uv's arguments that install the packages of `lock` into `target`, for the Python of another Linux.

    Parameters:
        machine: the processor's name, as container engines write it.
        python: the version of that Python, `3.13`.
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
    """The command that runs a module of the Pulumi program in its own process."""
    return [str(VENV / "bin" / "python"), "-m", module, *arguments]


@contextmanager
def program(variables: Mapping[str, str] | None = None) -> Iterator[None]:
    """Make `.venv`, and let the block import modules of the Pulumi program.

    Import them only in such a block: without `.venv`, packages that they need are missing. Raises SetupError, with the
    text of a ProgramError that leaves the block.

    Parameters:
        variables: all variables of the commands that the modules start; None for this process's variables.
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
    """Put `packages` before the system's own Python packages, which have other versions than the lock."""
    if str(packages) not in sys.path:
        theirs = (place for place, each in enumerate(sys.path) if each.endswith("-packages"))
        sys.path.insert(next(theirs, len(sys.path)), str(packages))


def _sync(uv: Path, folder: Path, lock: Path, *options: str) -> None:
    """Give the environment in `folder` the packages of `lock`, and remove its stamp first.

    An environment without a stamp is not whole, and is made again: uv takes a package with missing files as installed.
    """
    stamp = folder / STAMP_NAME
    was_whole = stamp.exists()
    stamp.unlink(missing_ok=True)
    if not (was_whole and _same_python(folder)):
        _uv(uv, folder, "venv", "--seed", "--python", sys.executable, folder)
    _uv(uv, folder, "pip", "sync", *options, lock)


def _uv(uv: Path, folder: Path, *arguments: str | Path) -> None:
    """Run uv for the environment in `folder`, first with its cache only, then with the package index.

    The lock's hashes are checked in both cases. Raises SetupError.
    """
    # The second try of `uv venv` must replace what the first try has left.
    env = {"VIRTUAL_ENV": str(folder), "UV_PYTHON_DOWNLOADS": "never", "UV_VENV_CLEAR": "1", **uv_cache(uv)}
    command = [uv, *arguments]
    try:
        run(command, log=_LOG, cwd=ROOT, env={**env, "UV_OFFLINE": "1"})
    except StoppedError:
        raise
    except SetupError:
        run(command, log=_LOG, cwd=ROOT, env=env)


def uv_cache(uv: Path) -> dict[str, str]:
    """The variables for our own uv: its cache is beside it. The user's uv keeps its own cache."""
    return {"UV_CACHE_DIR": str(cache() / "uv")} if uv.is_relative_to(cache()) else {}


def _same_python(folder: Path) -> bool:
    python = folder / "bin" / "python"
    if not python.exists():
        return False
    done = subprocess.run([python, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
    return done.stdout.strip() == sys.version.strip()


def uv() -> Path:
    """The user's uv, or the path of uv in the cache, which may not exist."""
    return which("uv") or _cached_uv()


def find_uv() -> Path:
    """The user's uv, or uv in the cache, downloaded if missing. Raises SetupError if that fails."""
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
    """Raise SetupError if the environment needs uv, uv is not here, and there is no pip to install it."""
    if not (is_complete() or which("uv") or _cached_uv().exists() or _has_pip() or _may_install_pip()):
        raise SetupError(
            "this Python has no ensurepip, so pip cannot be installed", "install python3-venv, or uv"
        )


def _ensure_pip() -> None:
    check_pip()
    if not _has_pip():
        packages.install(["python3-venv"])


def _has_pip() -> bool:
    """Whether this Python has ensurepip. Debian's `venv` lacks ensurepip, which is in another package."""
    return importlib.util.find_spec("ensurepip") is not None


def _may_install_pip() -> bool:
    return os.geteuid() == 0 and packages.available()
