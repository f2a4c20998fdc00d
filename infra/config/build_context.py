"""The user's own folder from which an image is built: where it is, and what is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path

from infra import paths
from infra.config.section import refusal

TRAINER_IMAGE = "TRAINER_IMAGE"
"""The build argument with which a user's Dockerfile names our image."""
_ARGUMENT = re.compile(r"^\s*ARG\s+(\w+)", re.MULTILINE | re.IGNORECASE)


def resolved(text: str) -> Path:
    """The file or folder that a stack file names: absolute, or relative to the clone."""
    return (paths.ROOT / Path(text).expanduser()).resolve()


def folder(context: str | None, dockerfile: str | None) -> Path | None:
    """The context of a user's build: `context`, else the folder of `dockerfile`; None if both are None."""
    if context:
        return resolved(context)
    return resolved(dockerfile).parent if dockerfile else None


def declared(dockerfile: Path) -> set[str]:
    """The build arguments that a Dockerfile declares with ARG."""
    return set(_ARGUMENT.findall(dockerfile.read_text()))


def ensure_usable(context: str | None, dockerfile: str | None) -> None:
    """Raises a refusal for a missing folder or Dockerfile, and for a folder that contains the clone."""
    if dockerfile and not resolved(dockerfile).is_file():
        allowed = "a Dockerfile's path, absolute or relative to the clone"
        raise refusal(
            allowed, f"there is no file {resolved(dockerfile)}: correct the path", "dockerfile", dockerfile
        )
    found = folder(context, dockerfile)
    key, value = ("context", context) if context else ("dockerfile", dockerfile)
    if found and not found.is_dir():
        allowed = "a folder's path, absolute or relative to the clone"
        raise refusal(allowed, f"there is no folder {found}: correct the path", key, value)
    if found and paths.ROOT.is_relative_to(found):
        allowed = (
            "a folder that does not contain the clone: the clone's state and models would be in the image"
        )
        raise refusal(allowed, "move the project into its own folder, and write that folder", key, value)
