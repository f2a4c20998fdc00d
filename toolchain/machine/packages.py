"""Debian packages that we install on the user's machine, recorded so that `make clean` can remove them."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolchain.machine.locks import machine_wide
from toolchain.paths import MACHINE
from toolchain.steps import SetupError, run, say

QUIET = {"DEBIAN_FRONTEND": "noninteractive"}
# apt of a killed run may still be running.
LOCK_WAIT = ("-o", "DPkg::Lock::Timeout=600")
# Second letters of dpkg's status for a package that is not here: `n`, or `c` if its configuration is left.
_ABSENT = "nc"
POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_MARK = "# trainstack"
DPKG_LOCK = Path("/var/lib/dpkg/lock-frontend")
RECORD = MACHINE / "packages"
# The packages that were installed before an installation that has not ended.
BEFORE = MACHINE / "packages.before"
# The packages that were installed before the first package of RECORD.
THERE = MACHINE / "packages.there"
# Earlier versions wrote this file.
MARKED = MACHINE / "packages.marked"
# This file exists while the packages are removed.
REMOVING = MACHINE / "packages.removing"
LOG = MACHINE / "packages.log"
# Debian's packages enable these for the next boot, as links below UNITS. Our engine does not use them.
SERVICES = ("docker.service", "docker.socket", "containerd.service")
UNITS = Path("/etc/systemd/system")


def available() -> bool:
    """Whether this machine uses Debian packages."""
    return Path("/etc/debian_version").exists() and shutil.which("apt-get") is not None


def installed(name: str) -> bool:
    return name in _configured()


def install(names: Sequence[str]) -> None:
    """Install `names` without recommended packages; no service of theirs starts, now or at the next boot.

    Raises SetupError with apt's last lines, also if apt would remove packages; then nothing is changed. New packages
    are added to RECORD and marked automatically installed. A killed installation is finished first. Packages that are
    already installed are not named to apt: it would mark them as wanted by a user.
    """
    with machine_wide("packages"):
        _finish_interrupted()
        there = _configured()
        names = [name for name in names if name not in there]
        if not names:
            return
        run(["apt-get", "update", "-qq"], log=LOG, env=QUIET)
        wanted = ("install", "--no-install-recommends", *names)
        if lost := _would_remove(*wanted):
            raise SetupError(
                f"installing {' '.join(names)} would remove {' '.join(sorted(lost))}; nothing was changed",
                "start the container engine that is installed, or remove those packages yourself"
                if "docker.io" in names
                else "remove those packages yourself",
            )
        before = "\n".join(sorted(there))
        if not RECORD.exists():
            THERE.write_text(before)
        BEFORE.write_text(before)
        try:
            with _services_forbidden():
                run(["apt-get", *wanted, "-y", "-qq", "--no-remove", *LOCK_WAIT], log=LOG, env=QUIET)
        finally:
            _record()


def finish_interrupted() -> None:
    """Finish a killed installation: configure unpacked packages, allow services to start, write the record.

    While apt of that installation still runs, services stay forbidden.
    """
    if BEFORE.exists() or REMOVING.exists() or _policy_is_ours():
        with machine_wide("packages"):
            _finish_interrupted()


def _finish_interrupted() -> None:
    if REMOVING.exists():
        run(["dpkg", "--configure", "-a"], log=LOG, env=QUIET)
        REMOVING.unlink()
    if BEFORE.exists():
        with _services_forbidden():
            run(["dpkg", "--configure", "-a"], log=LOG, env=QUIET)
        _record()
    elif _policy_is_ours() and not _apt_runs():
        POLICY.unlink(missing_ok=True)


def _record() -> None:
    new = sorted(_configured() - set(BEFORE.read_text().split()))
    if set(new) & {"docker.io", "containerd"}:
        _disable_services()
    with RECORD.open("a") as record:
        record.writelines(f"{name}\n" for name in new)
    if new:
        _output("apt-mark", "auto", *new, *LOCK_WAIT)
    BEFORE.unlink()


def _disable_services() -> None:
    """Disable the system's own engine: it would start at the next boot instead of ours."""
    for link in UNITS.glob("*.wants/*"):  # a pattern that ends in a name skips broken links
        if link.name in SERVICES:
            link.unlink()
    if update := shutil.which("update-rc.d"):  # machines without systemd
        subprocess.run([update, "docker", "disable"], check=False, capture_output=True)


@contextmanager
def _services_forbidden() -> Iterator[None]:
    """In the block, no package starts its service. A policy that somebody else has set stays unchanged."""
    forbid = not POLICY.exists() or _policy_is_ours()
    if forbid:
        POLICY.write_text(f"#!/bin/sh\n{POLICY_MARK}\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        yield
    finally:
        if forbid:
            POLICY.unlink(missing_ok=True)


def _policy_is_ours() -> bool:
    try:
        return POLICY_MARK in POLICY.read_text()
    except OSError:
        return False


def _apt_runs() -> bool:
    """Whether a process holds dpkg's lock."""
    try:
        with DPKG_LOCK.open("r+") as handle:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def unpack(name: str, into: Path) -> None:
    """Download Debian package `name` and unpack its files as the folder `into`. It installs nothing.

    The folder is whole or does not exist.
    """
    into.parent.mkdir(parents=True, exist_ok=True)
    with (
        machine_wide("packages"),
        tempfile.TemporaryDirectory(dir=into.parent, prefix=f".{into.name}-") as folder,
    ):
        files = Path(folder) / "files"
        run(["apt-get", "update", "-qq"], log=LOG, env=QUIET)  # a fresh machine has no package lists yet
        download = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", name]
        run(download, log=LOG, cwd=Path(folder))
        run(["dpkg-deb", "--extract", next(Path(folder).glob(f"{name}_*.deb")), files], log=LOG)
        shutil.rmtree(into, ignore_errors=True)
        files.rename(into)


def purge() -> None:
    """Remove packages of RECORD that no user has asked for and no package needs; say which stay. Raises SetupError."""
    if not RECORD.exists():
        return
    if os.geteuid() != 0:
        raise SetupError(f"only root can remove the packages that {RECORD} lists", "sudo make clean")
    with machine_wide("packages"):
        _finish_interrupted()
        ours = set(RECORD.read_text().split()) & _configured()
        unneeded = _unneeded(ours)
        if unneeded:
            REMOVING.touch()
            run(["apt-get", "purge", "-y", "-qq", *LOCK_WAIT, *sorted(unneeded)], log=LOG, env=QUIET)
        if kept := sorted(ours - unneeded):
            say(f"kept, because other packages or a user need them: {' '.join(kept)}")
        for file in (REMOVING, MARKED, THERE, RECORD):
            file.unlink(missing_ok=True)


def _unneeded(ours: set[str]) -> set[str]:
    """Packages of `ours` that no user has asked for, no other package needs, and that can be removed alone.

    An earlier package has worked without the packages of ours that it recommends. A later package may need them.
    (apt's own autoremove keeps each package that another recommends, suggests, or could use as an alternative.)
    """
    there = set(THERE.read_text().split()) if THERE.exists() else set()
    automatic = ours & set(_output("apt-mark", "showauto").split())
    wanted = automatic - _recommended_by(_configured() - automatic - there)
    if not wanted or _would_remove("purge", *sorted(wanted)) <= wanted:
        return wanted
    unneeded: set[str] = set()
    for name in sorted(wanted):
        if _would_remove("purge", *sorted(unneeded), name) <= wanted:
            unneeded.add(name)
    return unneeded


def _states() -> dict[str, str]:
    """Package -> dpkg's status; `ii` means installed and configured."""
    listed = _output("dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}${Package}\n")
    return {line[3:]: line[:2] for line in listed.splitlines()}


def _configured() -> set[str]:
    """The packages that are installed and configured."""
    return {name for name, state in _states().items() if state == "ii"}


def present() -> set[str]:
    """The packages on this machine, also packages that are unpacked but not configured."""
    return {name for name, state in _states().items() if state[1] not in _ABSENT}


def _recommended_by(packages: Iterable[str]) -> set[str]:
    """The installed packages that one of `packages` recommends, by their own name or a name that they provide."""
    recommended: set[str] = set()
    provided: dict[str, set[str]] = {}
    asking = set(packages)
    fields = "${Package}\t${Recommends}\t${Provides}\n"
    for line in _output("dpkg-query", "--show", "--showformat", fields).splitlines():
        name, recommends, provides = line.split("\t")
        provided[name] = {name, *_names(provides)}
        if name in asking:
            recommended |= _names(recommends)
    return {name for name in _configured() if provided[name] & recommended}


def _names(relation: str) -> set[str]:
    """The packages in a field such as `Recommends: a (>= 1.2), b:any | c`."""
    return set(re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]*)", relation))


def _would_remove(*arguments: str) -> set[str]:
    """The packages that `apt-get <arguments>` would remove."""
    said = _output("apt-get", "--simulate", *arguments)
    return set(re.findall(r"^(?:Remv|Purg) (\S+)", said, re.MULTILINE))


def _output(*command: str) -> str:
    """Standard output. Raises SetupError with the command's own words."""
    environment = {**os.environ, **QUIET, "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    except OSError as error:
        raise SetupError(
            f"cannot run {command[0]}: {error.strerror}", "README.md says what a machine needs"
        ) from None
    if done.returncode:
        raise SetupError(f"`{_shown(command)}` failed: {done.stderr.strip()}", _fix(done.stderr))
    return done.stdout


def _fix(complaint: str) -> str:
    return "sudo dpkg --configure -a" if "dpkg --configure -a" in complaint else ""


def _shown(command: Sequence[str]) -> str:
    """The beginning of a command line."""
    return " ".join(command[:4]) + (" …" if len(command) > 4 else "")
