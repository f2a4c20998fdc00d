"""Find the engine that answers; start ours where none does; stop it when nothing uses it any more."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from toolchain.machine import packages
from toolchain.machine.engine import daemon
from toolchain.steps import SetupError, step

NEEDED_PACKAGES = ("docker.io", "iptables")
ANSWER_S = 10


@dataclass(frozen=True)
class Engine:
    """A container engine that answers.

    `ours` tells whether we started it; `env` is what a client needs to reach it (empty for the user's own).
    """

    docker: str
    ours: bool
    env: Mapping[str, str] = field(default_factory=dict)

    def output(self, *arguments: str) -> str:
        """Standard output of `docker <arguments>`, stripped. Raises SetupError with docker's own words."""
        done = subprocess.run(
            [self.docker, *arguments], env={**os.environ, **self.env}, capture_output=True, text=True
        )
        if done.returncode:
            raise SetupError(f"`docker {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout.strip()

    def has_image(self, name: str) -> bool:
        return bool(self.output("image", "ls", "--quiet", "--filter", f"reference={name}"))


def _answers(docker: str, env: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(
            [docker, "version", "--format", "{{.Server.Version}}"],
            env={**os.environ, **env},
            capture_output=True,
            timeout=ANSWER_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def find() -> Engine | None:
    """The engine that answers now: the user's first (DOCKER_HOST or the client's context), then ours."""
    docker = shutil.which("docker")
    if docker is None:
        return None
    asked = os.environ.get("DOCKER_HOST")
    if asked != daemon.HOST:
        if _answers(docker, {}):
            return Engine(docker, ours=False)
        if asked:
            return None  # where the user names an engine, we use no other
    ours = {"DOCKER_HOST": daemon.HOST}
    if daemon.SOCKET.exists() and _answers(docker, ours):
        return Engine(docker, ours=True, env=ours)
    return None


def ensure() -> Engine:
    """The engine that answers, after installing and starting Debian's where there is none.

    Raises SetupError with what to install, where we may not install it ourselves.
    """
    if found := find():
        return found
    may_install()
    with step("container engine") as progress:
        missing = [name for name in NEEDED_PACKAGES if not packages.installed(name)]
        if missing:
            progress.note(f"installing {' '.join(missing)}")
            packages.install(missing)
        progress.note("starting dockerd")
        daemon.start()
    found = find()
    if found is None:
        raise SetupError("the container engine was started but does not answer", f"see {daemon.LOG}")
    return found


def may_install() -> None:
    """Raise SetupError where we cannot install and start an engine ourselves."""
    asked = os.environ.get("DOCKER_HOST", "")
    if asked and asked != daemon.HOST:
        raise SetupError(
            f"no container engine answers at DOCKER_HOST={asked}", "start that engine, or unset DOCKER_HOST"
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


def stop() -> bool:
    """Stop our engine unless a container runs in it; True when the engine is stopped now.

    Images and volumes stay on disk. An engine that we did not start is left alone.
    """
    engine = find()
    if engine is None or not engine.ours:
        daemon.sweep()
        return True
    if engine.output("ps", "--quiet"):
        return False
    with step("stopping the container engine"):
        daemon.stop()
    return True


def remove() -> None:
    """Everything the engine left on this machine: its data, the packages that we installed for it."""
    daemon.stop()
    daemon.remove_data()
    packages.purge()
    packages.LOG.unlink(missing_ok=True)
    with suppress(OSError):  # somebody may keep volumes there
        daemon.HOME.rmdir()
