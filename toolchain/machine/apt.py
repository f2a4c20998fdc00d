"""What apt would do, and what dpkg knows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from toolchain.steps import SetupError

QUIET = {"DEBIAN_FRONTEND": "noninteractive"}
# An apt of a killed run may still be at work.
LOCK_WAIT = ("-o", "DPkg::Lock::Timeout=600")
# Second letter of dpkg's status: nothing of the package is here but, with `c`, its configuration.
_ABSENT = "nc"


def available() -> bool:
    """Whether this machine installs Debian packages."""
    return Path("/etc/debian_version").exists() and shutil.which("apt-get") is not None


def _states() -> dict[str, str]:
    """Package -> dpkg's status, `ii` for one that is installed and configured."""
    listed = _output("dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}${Package}\n")
    return {line[3:]: line[:2] for line in listed.splitlines()}


def names() -> set[str]:
    """The packages that are installed and configured."""
    return {name for name, state in _states().items() if state == "ii"}


def present() -> set[str]:
    """The packages that lie on this machine, also those unpacked and not configured."""
    return {name for name, state in _states().items() if state[1] not in _ABSENT}


def automatic() -> set[str]:
    """The packages that nobody has asked for by name."""
    return set(_output("apt-mark", "showauto").split())


def mark_automatic(wanted: Iterable[str]) -> None:
    """Have apt know that nobody has asked for these packages."""
    if chosen := sorted(wanted):
        _output("apt-mark", "auto", *chosen, *LOCK_WAIT)


def recommended_by(packages: Iterable[str]) -> set[str]:
    """The installed packages that one of these `packages` recommends, by their own name or by one they provide."""
    recommended: set[str] = set()
    provided: dict[str, set[str]] = {}
    asking = set(packages)
    fields = "${Package}\t${Recommends}\t${Provides}\n"
    for line in _output("dpkg-query", "--show", "--showformat", fields).splitlines():
        name, recommends, provides = line.split("\t")
        provided[name] = {name, *_names(provides)}
        if name in asking:
            recommended |= _names(recommends)
    return {name for name in names() if provided[name] & recommended}


def _names(relation: str) -> set[str]:
    """The packages in a field such as `Recommends: a (>= 1.2), b:any | c`."""
    return set(re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]*)", relation))


def would_remove(*arguments: str) -> set[str]:
    """The packages that `apt-get <arguments>` would remove."""
    said = _output("apt-get", "--simulate", *arguments)
    return set(re.findall(r"^(?:Remv|Purg) (\S+)", said, re.MULTILINE))


def _output(*command: str) -> str:
    """Standard output. Raises SetupError with the command's own words."""
    environment = {**os.environ, **QUIET, "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    except OSError as error:
        raise SetupError(f"cannot run {command[0]}: {error.strerror}", "see the README") from None
    if done.returncode:
        raise SetupError(f"`{shown(command)}` failed: {done.stderr.strip()}", _fix(done.stderr))
    return done.stdout


def _fix(complaint: str) -> str:
    return "sudo dpkg --configure -a" if "dpkg --configure -a" in complaint else ""


def shown(command: Sequence[str]) -> str:
    """The beginning of a command line."""
    return " ".join(command[:4]) + (" …" if len(command) > 4 else "")
