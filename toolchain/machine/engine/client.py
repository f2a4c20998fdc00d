"""Finds the engine that answers, and calls its client."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolchain.machine.engine import daemon
from toolchain.steps import SetupError

ANSWER_S, REGISTRY_S = 10, 20
OURS = {"DOCKER_HOST": daemon.HOST}


@dataclass(frozen=True)
class Engine:
    """A container engine that answers.

    `ours` says whether we started it; `env` are the variables that a client needs, empty for the user's own engine.
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

    def succeeds(self, *arguments: str, within_s: float = REGISTRY_S) -> bool:
        """Whether `docker <arguments>` succeeds in time: a registry out of reach may never answer.

        Raises OSError if the program cannot be started.
        """
        command, variables = [self.docker, *arguments], {**os.environ, **self.env}
        try:
            done = subprocess.run(command, env=variables, capture_output=True, timeout=within_s)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def has_image(self, name: str) -> bool:
        return bool(self.output("image", "ls", "--quiet", "--filter", f"reference={name}"))


def find() -> Engine | None:
    """The engine to use; None if it does not answer.

    If DOCKER_HOST names an engine, that one is used. Otherwise our engine is used if it holds containers, even if
    another engine answers: Debian's package starts its own engine with the machine, which does not know our containers.
    Otherwise the first engine that answers is used: the user's, then ours.
    """
    docker = shutil.which("docker")
    if docker is None:
        return None
    user, ours = Engine(docker, ours=False), Engine(docker, ours=True, env=OURS)
    asked = os.environ.get("DOCKER_HOST")
    if asked and asked != daemon.HOST:
        wanted = [user]
    elif asked or daemon.holds_containers():
        wanted = [ours]
    else:
        wanted = [user, ours]
    return next((engine for engine in wanted if _answers(engine)), None)


def _answers(engine: Engine) -> bool:
    if engine.ours and not daemon.SOCKET.exists():
        return False
    try:
        # `docker version` takes three times as long: dockerd starts runc and docker-init for it.
        return engine.succeeds("ps", "--quiet", "--last", "1", within_s=ANSWER_S)
    except OSError:
        return False
