"""The images that are pulled where a registry can be reached, or built here in their place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from infra import docker
from infra.audit.trusted import Kind, Trusted
from infra.config import shell_variables
from infra.image.inputs import DOCKERFILE
from infra.process import output

# What names an image where nothing else is set, and how.
FILES = (
    DOCKERFILE,
    "examples/*/Dockerfile",
    "infra/clusters/kind/component.py",
    "infra/training_operator/patches.py",
)
NAMED = re.compile(r'^(?:ARG [A-Z]+_BASE=|[A-Z]+_IMAGE = ")(?P<reference>[^\s"]+)"?$', re.MULTILINE)


def named(root: Path) -> Iterator[tuple[str, str]]:
    """The references that the clone in `root` names, each with the file, relative to `root`, that does."""
    for pattern in FILES:
        for file in sorted(root.glob(pattern)):
            for line in NAMED.finditer(file.read_text()):
                yield line["reference"], str(file.relative_to(root))


def published(root: Path, *others: str) -> Iterator[Trusted]:
    """The images that the program uses by default.

    Parameters:
        root: the clone's folder.
        others: references that whoever calls knows of.
    """
    for reference, place in [*named(root), *((other, "named by the caller") for other in others)]:
        yield image(reference, place)


def image(reference: str, place: str) -> Trusted:
    """An image by its reference; without a digest its checksum is a gap."""
    tagged, _, digest = reference.partition("@")
    name, colon, tag = tagged.rpartition(":")
    if not colon or "/" in tag:  # a port's colon
        name, tag = tagged, ""
    return Trusted(
        kind=Kind.IMAGE, name=name, version=tag, checksums=(digest,) if digest else (), place=place
    )


def local(environment: Mapping[str, str]) -> dict[str, Trusted]:
    """Reference -> the image that this machine's engine has in place of a published one; the checksum is its id.

    Raises CommandError. `environment` names the images.
    """
    found: dict[str, Trusted] = {}
    for variable in shell_variables.IMAGES:
        reference = environment.get(variable, "")
        if reference and docker.has_image(reference):
            identity = output("docker", "image", "inspect", "--format", "{{.Id}}", reference).strip()
            name, _, tag = reference.partition("@")[0].rpartition(":")
            found[reference] = Trusted(
                kind=Kind.IMAGE, name=name, version=tag, checksums=(identity,), place=variable
            )
    return found
