"""Start our engine where none answers; stop it when nothing and nobody uses it any more."""

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

# `ip` takes the engine's bridges away when it ends. A Debian of required packages alone has none.
NEEDED_PACKAGES = ("docker.io", "iptables", "iproute2")
# From Debian 13 on the client is in a package of its own, which docker.io only recommends.
CLIENT = "docker-cli"
# Debian's own, which we install ourselves: with it there, nothing needs to be installed.
DEBIANS = "docker.io"

IN_USE = "in-use.lock"
# Held, shared, by each process that works with our engine, until it ends.
_in_use: list[IO[str]] = []


def ensure() -> Engine:
    """The engine that answers, after installing and starting Debian's where there is none.

    Raises SetupError that says what to install where we may not do it ourselves.
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
    """Raise SetupError where we cannot install and start an engine ourselves."""
    asked = os.environ.get("DOCKER_HOST", "")
    if asked and asked != daemon.HOST:
        raise SetupError(
            f"no container engine answers at DOCKER_HOST={asked}", "start that engine, or unset DOCKER_HOST"
        )
    if not is_linux():
        raise SetupError(
            "no container engine answers, and ours runs on Linux alone",
            "start Docker Desktop, or another engine that `docker version` reaches",
        )
    if engine := other():
        raise SetupError(
            f"{engine.name} is installed and does not answer; nothing is installed beside it", engine.fix
        )
    if os.geteuid() != 0:
        raise SetupError(
            "no container engine answers, and only root can start one",
            "start Docker (`sudo systemctl start docker`) and join the group `docker`, or run as root",
        )
    if not packages.available():
        raise SetupError(
            "no container engine answers, and this is no Debian whose own we could install",
            "install Docker 20.10 or newer and start it",
        )


@dataclass(frozen=True)
class Installed:
    """An engine, and how it is started."""

    name: str
    fix: str


def other() -> Installed | None:
    """The installed engine that is not Debian's docker.io; None where docker.io is installed, or no engine is.

    A docker client alone is no engine.
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
            "or have Docker beside it, which is what has been tried: sudo apt-get install docker.io",
        )
    return None


def _start_docker(program: str) -> str:
    if program.startswith("/snap/"):
        return "sudo snap start docker"
    return "sudo systemctl start docker" if shutil.which("systemctl") else "sudo service docker start"


def stop() -> bool:
    """Stop our engine when it runs and nothing needs it; True when it is stopped now.

    A container that runs needs it, and so does another process of ours. Images and volumes stay on disk. An engine
    that we did not start is left alone, and so is root's by anybody else who may use it.
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
        with _kept_from_others() as nobody_uses_it:
            if nobody_uses_it:
                with step("stopping the container engine"):
                    daemon.stop()
            return nobody_uses_it


def _hold() -> None:
    """Say that this process works with our engine. Where root has made no file for that, there is none."""
    if _in_use:
        return
    with suppress(OSError):
        # To read: the file is root's, and another user of root's engine holds it, too.
        handle = (daemon.HOME / IN_USE).open()
        fcntl.flock(handle, fcntl.LOCK_SH)
        _in_use.append(handle)


@contextmanager
def _kept_from_others() -> Iterator[bool]:
    """Whether no other process works with our engine; then none is given it before the block ends."""
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
    """Everything the engine left on this machine: its data, the packages that we installed for it.

    Where root has made all that, root alone can remove it; this says so.
    """
    if os.geteuid() != 0 and daemon.HOME.exists() and not os.access(daemon.HOME, os.W_OK):
        say(f"kept: {daemon.HOME} and the packages that it lists; only root can remove them: sudo make clean")
        return
    daemon.stop()
    daemon.remove_data()
    packages.purge()
    packages.LOG.unlink(missing_ok=True)
    for lock in daemon.HOME.glob("*.lock"):
        lock.unlink()
    with suppress(OSError):  # somebody may keep volumes there
        daemon.HOME.rmdir()
