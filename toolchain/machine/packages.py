"""Debian packages that we install on the user's machine, written down so that `make clean` can take them away."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from toolchain.machine.engine.daemon import HOME
from toolchain.steps import run

POLICY = Path("/usr/sbin/policy-rc.d")
RECORD = HOME / "packages"
LOG = HOME / "packages.log"
# apt and the record of what is new allow one at a time.
_apt = threading.Lock()
QUIET = {"DEBIAN_FRONTEND": "noninteractive"}


def available() -> bool:
    """Whether this machine installs Debian packages."""
    return Path("/etc/debian_version").exists() and shutil.which("apt-get") is not None


def _names() -> set[str]:
    listed = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}${Package}\n"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {line[3:] for line in listed.stdout.splitlines() if line.startswith("ii")}


def installed(name: str) -> bool:
    return name in _names()


def install(names: Sequence[str]) -> None:
    """Install `names` without recommended packages and without starting their services.

    Raises SetupError with apt's last lines. What came new with them is added to RECORD.
    """
    with _apt:
        _install(names)


def _install(names: Sequence[str]) -> None:
    before = _names()
    HOME.mkdir(parents=True, exist_ok=True)
    run(["apt-get", "update", "-qq"], log=LOG, env=QUIET)
    forbid = not POLICY.exists()
    if forbid:  # our engine runs apart from any service of the system
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *names], log=LOG, env=QUIET)
    finally:
        if forbid:
            POLICY.unlink()
        new = sorted(_names() - before)
        with RECORD.open("a") as record:
            record.writelines(f"{name}\n" for name in new)


def unpack(name: str, into: Path) -> None:
    """Download Debian package `name` and unpack its files below `into`, installing nothing."""
    into.mkdir(parents=True, exist_ok=True)
    with _apt:
        _unpack(name, into)


def _unpack(name: str, into: Path) -> None:
    run(["apt-get", "update", "-qq"], log=LOG, env=QUIET)  # a fresh machine has no package lists yet
    run(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", name], log=LOG, cwd=into)
    archive = next(into.glob(f"{name}_*.deb"))
    run(["dpkg-deb", "--extract", archive, into], log=LOG)
    archive.unlink()


def purge() -> None:
    """Remove the packages in RECORD, if any."""
    if not RECORD.exists():
        return
    names = sorted(set(RECORD.read_text().split()) & _names())
    if names and os.geteuid() == 0:
        run(["apt-get", "purge", "-y", "-qq", *names], log=LOG, env=QUIET)
    RECORD.unlink()
