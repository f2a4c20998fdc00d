"""Debian packages that we install on the user's machine, written down so that `make clean` can take them away."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolchain.machine.locks import machine_wide
from toolchain.paths import MACHINE
from toolchain.steps import run

POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_MARK = "# trainstack"
DPKG_LOCK = Path("/var/lib/dpkg/lock-frontend")
RECORD = MACHINE / "packages"
# The packages that were there before an installation that has not ended.
BEFORE = MACHINE / "packages.before"
LOG = MACHINE / "packages.log"
QUIET = {"DEBIAN_FRONTEND": "noninteractive"}
# An apt of a killed run may still be at work.
LOCK_WAIT = ("-o", "DPkg::Lock::Timeout=600")
# Debian's packages enable these for the next boot, as links below UNITS; the engine that we start runs apart from them.
SERVICES = ("docker.service", "docker.socket", "containerd.service")
UNITS = Path("/etc/systemd/system")


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
    """Install `names` without recommended packages and without starting their services, now or at the next boot.

    Raises SetupError with apt's last lines. What came new with them is added to RECORD. An installation that was
    killed is finished first.
    """
    with machine_wide("packages"):
        _finish_interrupted()
        run(["apt-get", "update", "-qq"], log=LOG, env=QUIET)
        BEFORE.write_text("\n".join(sorted(_names())))
        apt = ["apt-get", "install", "-y", "-qq", *LOCK_WAIT, "--no-install-recommends", *names]
        try:
            with _services_forbidden():
                run(apt, log=LOG, env=QUIET)
        finally:
            _record()


def finish_interrupted() -> None:
    """Finish what an installation that was killed has left: packages unpacked only, the ban on services, the record.

    While an apt of that installation still runs, its ban stays.
    """
    if BEFORE.exists() or _policy_is_ours():
        with machine_wide("packages"):
            _finish_interrupted()


def _finish_interrupted() -> None:
    if BEFORE.exists():
        with _services_forbidden():
            run(["dpkg", "--configure", "-a"], log=LOG, env=QUIET)
        _record()
    elif _policy_is_ours() and not _apt_runs():
        POLICY.unlink(missing_ok=True)


def _record() -> None:
    new = sorted(_names() - set(BEFORE.read_text().split()))
    if set(new) & {"docker.io", "containerd"}:
        _disable_services()
    with RECORD.open("a") as record:
        record.writelines(f"{name}\n" for name in new)
    BEFORE.unlink()


def _disable_services() -> None:
    """Otherwise the system's own engine would start at the next boot in place of ours."""
    for link in (link for service in SERVICES for link in UNITS.glob(f"*.wants/{service}")):
        link.unlink()
    if update := shutil.which("update-rc.d"):  # machines without systemd
        subprocess.run([update, "docker", "disable"], check=False, capture_output=True)


@contextmanager
def _services_forbidden() -> Iterator[None]:
    """No package starts its service inside. Somebody else's policy stays as it is."""
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
    """Release 0.1 wrote it without the mark."""
    try:
        text = POLICY.read_text()
    except OSError:
        return False
    return POLICY_MARK in text or text == "#!/bin/sh\nexit 101\n"


def _apt_runs() -> bool:
    """Whether some process holds dpkg's lock."""
    try:
        with DPKG_LOCK.open("r+") as handle:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def unpack(name: str, into: Path) -> None:
    """Download Debian package `name` and unpack its files as the folder `into`, installing nothing.

    The folder is whole or not there.
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
    """Remove the packages in RECORD, if any."""
    if not RECORD.exists():
        return
    names = sorted(set(RECORD.read_text().split()) & _names())
    if names and os.geteuid() == 0:
        run(["apt-get", "purge", "-y", "-qq", *LOCK_WAIT, *names], log=LOG, env=QUIET)
    RECORD.unlink()
