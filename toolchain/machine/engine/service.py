"""Starts our engine if no engine answers; stops our engine when nobody uses it any more."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from toolchain.machine import packages
from toolchain.machine.engine import daemon
from toolchain.machine.engine.client import Engine, find
from toolchain.machine.locks import machine_wide
from toolchain.machine.processes import is_linux
from toolchain.progress import Step
from toolchain.steps import SetupError, say, step

# When the engine ends, we remove its bridges with `ip`. A Debian with only required packages has no `ip`.
NEEDED_PACKAGES = ("docker.io", "iptables", "iproute2")
# Since Debian 13, the client has its own package, which docker.io only recommends.
CLIENT = "docker-cli"
# Debian's own engine, the only one that we install.
DEBIANS = "docker.io"

IN_USE = "in-use.lock"
# Each process that works with our engine holds this lock in shared mode until the process ends.
_in_use: list[IO[str]] = []


def ensure() -> Engine:
    """The engine that answers. If none answers, Debian's engine is installed and started.

    Raises SetupError, which says what to install, if we may not do it.
    """
    if os.geteuid() == 0 and packages.available():
        packages.finish_interrupted()
        daemon.HOME.mkdir(parents=True, exist_ok=True)
        (daemon.HOME / IN_USE).touch()
    _hold()
    if found := find():
        return found
    may_install()
    with machine_wide("engine"), step("container engine") as progress:
        if found := find():  # another clone has started it meanwhile
            return found
        _install_missing(progress)
        progress.note("starting dockerd")
        daemon.start()
    found = find()
    if found is None:
        raise SetupError("the container engine was started but does not answer", f"see {daemon.LOG}")
    return found


def _install_missing(progress: Step) -> None:
    missing = [name for name in NEEDED_PACKAGES if not packages.installed(name)]
    if missing:
        progress.note(f"installing {' '.join(missing)}")
        packages.install(missing)
    if shutil.which("docker") is None:
        progress.note(f"installing {CLIENT}")
        packages.install([CLIENT])


def may_install() -> None:
    """Raise SetupError if we cannot install and start an engine."""
    asked = os.environ.get("DOCKER_HOST", "")
    if asked and asked != daemon.HOST:
        raise SetupError(
            f"no container engine answers at DOCKER_HOST={asked}", "start that engine, or unset DOCKER_HOST"
        )
    if not is_linux():
        raise SetupError(
            "no container engine answers, and `make up` can start one only on Linux",
            "start Docker Desktop, or another engine that `docker version` reaches",
        )
    if engine := other():
        raise SetupError(
            f"{engine.name} is installed but does not answer; `make up` installs no second engine beside it",
            engine.fix,
        )
    if os.geteuid() != 0:
        raise SetupError(
            "no container engine answers, and only root can start one",
            "start Docker (`sudo systemctl start docker`) and join the group `docker`, or run as root",
        )
    if not packages.available():
        raise SetupError(
            "no container engine answers, and `make up` can install one only on Debian",
            "install Docker 20.10 or newer and start it",
        )


@dataclass(frozen=True)
class Installed:
    """An engine, and how to start it."""

    name: str
    fix: str


def other() -> Installed | None:
    """The installed engine that is not Debian's docker.io; None if docker.io or no engine is installed.

    A docker client alone is not an engine.
    """
    known = packages.present() if packages.available() else set()
    if DEBIANS in known:
        return None
    if program := shutil.which("dockerd"):
        return Installed(f"Docker ({program})", f"start it: {_start_docker(program)}")
    if "containerd.io" in known:
        return Installed(
            "the containerd of Docker CE (package containerd.io)",
            "install the rest of Docker CE and start it: "
            f"sudo apt-get install docker-ce && {_start_docker('')}; or remove containerd.io",
        )
    if program := shutil.which("podman"):
        return Installed(
            f"Podman ({program})",
            "start it: sudo systemctl start podman.socket, and set DOCKER_HOST=unix:///run/podman/podman.sock; "
            "or install Docker, with which we test, beside it: sudo apt-get install docker.io",
        )
    return None


def _start_docker(program: str) -> str:
    if program.startswith("/snap/"):
        return "sudo snap start docker"
    return "sudo systemctl start docker" if shutil.which("systemctl") else "sudo service docker start"


def stop() -> bool:
    """Stop our engine if nothing needs it; returns whether our engine is stopped now.

    A running container needs it, and so does another process of ours. Images and volumes stay on disk. An engine that
    we did not start keeps running. Only root stops root's engine.
    """
    engine, is_root = find(), os.geteuid() == 0
    if engine is None or not engine.ours:
        if is_root:
            daemon.sweep()
        return True
    if not is_root:
        return False
    with machine_wide("engine"):
        if engine.output("ps", "--quiet"):
            return False
        with _exclusive_use() as nobody_uses_it:
            if nobody_uses_it:
                with step("stopping the container engine"):
                    daemon.stop()
            return nobody_uses_it


def _hold() -> None:
    """Take the shared lock: this process works with our engine.

    If root's lock file does not exist, neither does our engine, and nothing has to be locked.
    """
    if _in_use:
        return
    with suppress(OSError):
        # Open for reading: the file is root's, and other users of root's engine lock it too.
        handle = (daemon.HOME / IN_USE).open()
        fcntl.flock(handle, fcntl.LOCK_SH)
        _in_use.append(handle)


@contextmanager
def _exclusive_use() -> Iterator[bool]:
    """Yield whether only this process works with our engine. If so, no other one begins before the block ends."""
    while _in_use:
        _in_use.pop().close()
    with (daemon.HOME / IN_USE).open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def remove() -> None:
    """Remove the engine's data, and the packages that we installed for it.

    If root owns them and this user is not root, this removes nothing and says so.
    """
    if os.geteuid() != 0 and daemon.HOME.exists() and not os.access(daemon.HOME, os.W_OK):
        say(
            f"kept: {daemon.HOME}, packages that {packages.RECORD} lists; only root can remove them: sudo make clean"
        )
        return
    daemon.stop()
    daemon.remove_data()
    packages.purge()
    packages.LOG.unlink(missing_ok=True)
    for lock in daemon.HOME.glob("*.lock"):
        lock.unlink()
    with suppress(OSError):  # a user may keep volumes there
        daemon.HOME.rmdir()
