"""Our calls of the container engine: containers, images, networks."""

from __future__ import annotations

import json
from typing import Any

from infra.agreed import ProgramError
from infra.process import CommandError, output


class EngineError(ProgramError):
    """The container engine does not answer."""


def ensure_answers() -> None:
    """Raises EngineError if the engine does not answer: that must not look like an engine without containers."""
    try:
        output("docker", "ps", "--quiet", "--last", "1")
    except CommandError as error:
        raise EngineError(
            f"the container engine does not answer.\n{error}\n  fix: start it, or run `make up`, which starts our own"
        ) from None


def identity() -> dict[str, str]:
    """The identity of this engine: its `id`, and the `host` to which clients connect.

    `id` is the engine's own id and its data folder: up to Docker 23 all engines of a machine have the same own id.
    Raises CommandError.
    """
    host = output("docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}").strip()
    return {"id": output("docker", "info", "--format", "{{.ID}} {{.DockerRootDir}}").strip(), "host": host}


def container(name: str) -> dict[str, Any] | None:
    """`docker inspect` of a container; None if no container has this name or id.

    Raises EngineError if no engine answers, else CommandError.
    """
    try:
        found: list[dict[str, Any]] = json.loads(output("docker", "container", "inspect", name))
    except CommandError as error:
        if "No such container" in str(error):
            return None
        ensure_answers()
        raise
    return found[0]


def labelled(label: str) -> list[dict[str, Any]]:
    """`docker inspect` of every container, also stopped, with `label` (`key=value`); ordered by name.

    Raises EngineError if no engine answers, else CommandError.
    """
    try:
        ids = output("docker", "ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={label}").split()
    except CommandError:
        ensure_answers()
        raise
    found = (container(identity) for identity in ids)
    return sorted((each for each in found if each is not None), key=lambda each: str(each["Name"]))


def execute(node: str, *command: str, stdin: str | None = None) -> str:
    """Run `command` in the container `node`, with the text `stdin`. Returns its output. Raises CommandError."""
    interactive = ["--interactive"] if stdin is not None else []
    return output("docker", "exec", *interactive, node, *command, stdin=stdin)


def has_image(name: str) -> bool:
    """Whether the container engine has an image of that name."""
    try:
        output("docker", "image", "inspect", "--format", "{{.Id}}", name)
    except CommandError:
        return False
    return True
