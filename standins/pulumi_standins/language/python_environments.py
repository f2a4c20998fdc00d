"""The place of a program's interpreter, and the installation of its dependencies: pip or uv."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pulumi_standins import border


class Tool(StrEnum):
    """The value of `runtime.options.toolchain` in Pulumi.yaml."""

    PIP = "pip"
    UV = "uv"


class BrokenEnvironmentError(Exception):
    """The program's environment is missing or broken; the message says how to repair it."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A program's interpreter.

    Parameters:
        tool: installs the dependencies.
        directory: the virtual environment, or None for the Python on PATH (pip without `virtualenv`).
        program: the folder of the program, with requirements.txt or pyproject.toml.
    """

    tool: Tool
    directory: Path | None
    program: Path

    @property
    def python(self) -> Path:
        """The interpreter; raises BrokenEnvironmentError if it is missing."""
        if self.directory is None:
            return _python_on_path()
        python = self.directory / "bin" / "python"
        if not python.exists():
            raise BrokenEnvironmentError(
                f"{self.directory} is not a virtual environment (no bin/python): "
                "run 'pulumi install' to create it and install the dependencies"
            )
        return python

    def variables(self) -> dict[str, str]:
        """The process environment with the virtual environment activated."""
        variables = dict(os.environ)
        variables.pop("PYTHONHOME", None)
        # Our own: the stand-in's packages must not hide the program's.
        variables.pop("PYTHONPATH", None)
        original = variables.pop("PULUMI_STANDINS_PYTHONPATH", "")
        if original:
            variables["PYTHONPATH"] = original
        if self.directory is not None:
            variables["VIRTUAL_ENV"] = str(self.directory)
            variables["PATH"] = f"{self.directory / 'bin'}{os.pathsep}{variables.get('PATH', os.defpath)}"
        return variables

    def import_path(self) -> list[Path]:
        """The folders with the environment's packages; the interpreter names them if some may be elsewhere."""
        settings = self.directory / "pyvenv.cfg" if self.directory else None
        if (
            settings
            and settings.is_file()
            and "include-system-site-packages = true" not in settings.read_text()
        ):
            return [*settings.parent.glob("lib/python*/site-packages")]
        command = [str(self.python), "-c", "import sys; print(*sys.path[1:], sep='\\n')"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True, env=self.variables())
        return [Path(line) for line in listed.stdout.splitlines()]

    def installation(self) -> Iterator[tuple[str, list[str]]]:
        """The steps of `pulumi install`: a line for the user, and a command to run in the program's folder."""
        if self.tool is Tool.UV:
            yield "Installing dependencies with uv...", ["uv", "sync"]
            return
        python = str(_python_on_path())
        if self.directory is not None:
            if not (self.directory / "bin" / "python").exists():
                yield "Creating virtual environment...", [python, "-m", "venv", str(self.directory)]
            python = str(self.directory / "bin" / "python")
        if (self.program / "requirements.txt").is_file():
            yield (
                "Installing dependencies in virtual environment...",
                [python, "-m", "pip", "install", "-r", "requirements.txt"],
            )


def find(options: Mapping[str, object], *, root: Path, program: Path) -> Environment:
    """Choose the environment from the runtime options of Pulumi.yaml; without any, by the lock file found.

    Raises BrokenEnvironmentError for an unknown toolchain, and for options beyond the border.
    """
    named = str(options.get("toolchain") or "")
    if named == "poetry" or (
        not named and not _upwards(program, "uv.lock") and _upwards(program, "poetry.lock")
    ):
        raise BrokenEnvironmentError(border.refusal("the toolchain poetry", border.HOST))
    if options.get("typechecker"):
        raise BrokenEnvironmentError(border.refusal("Pulumi.yaml's typechecker", border.HOST))
    if named and named not in set(Tool):
        raise BrokenEnvironmentError(
            f"Pulumi.yaml: runtime.options.toolchain is {named!r}; allowed are {', '.join(Tool)}"
        )
    tool = Tool(named) if named else Tool.UV if _upwards(program, "uv.lock") else Tool.PIP
    virtualenv = str(options.get("virtualenv") or "")
    directory = root / virtualenv if virtualenv else None
    if tool is Tool.UV and directory is None:
        anchor = _upwards(program, "uv.lock") or _upwards(program, "pyproject.toml") or program
        directory = anchor / ".venv"
    return Environment(tool=tool, directory=directory, program=program)


def _upwards(start: Path, name: str) -> Path | None:
    return next((folder for folder in (start, *start.parents) if (folder / name).is_file()), None)


def _python_on_path() -> Path:
    wanted = os.environ.get("PULUMI_PYTHON_CMD")
    for name in [wanted] if wanted else ["python3", "python"]:
        found = shutil.which(name)
        if found:
            return Path(found)
    raise BrokenEnvironmentError(
        f"no {wanted or 'python3'} on PATH: install it, or set PULUMI_PYTHON_CMD to a Python"
    )
