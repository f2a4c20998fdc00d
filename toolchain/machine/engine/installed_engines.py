"""Container engines that somebody has installed, whether they run or not: nothing is installed beside them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from toolchain.machine import apt

# Debian's own, which we install ourselves: with it there, nothing needs to be installed.
DEBIANS = "docker.io"


@dataclass(frozen=True)
class Installed:
    """An engine, and how it is started."""

    name: str
    fix: str


def installed() -> Installed | None:
    """The installed engine that is not Debian's docker.io; None where docker.io is installed, or no engine is.

    A docker client alone is no engine.
    """
    packages = apt.present() if apt.available() else set()
    if DEBIANS in packages:
        return None
    if program := shutil.which("dockerd"):
        return Installed(f"Docker ({program})", f"start it: {_start_docker(program)}")
    if "containerd.io" in packages:
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
