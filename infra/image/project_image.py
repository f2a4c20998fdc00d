"""The dynamic resource that builds a user's project as an image."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import Resource

from infra import docker
from infra.config import build_context
from infra.dynamic import Props
from infra.image import project, push, requirements
from infra.image.providers import EngineImageProvider
from infra.process import CommandError

CHANGED = "the project changed while it was built; run the same command again"


class ProjectImageProvider(EngineImageProvider):
    """A build of a user's folder in the engine.

    Properties: `tag`, `context` and `dockerfile` as the stack file has them, `arguments`, and `trainer`, the image
    that it builds on.
    """

    id = "project"

    def build(self, props: Props, image: str) -> None:
        if docker.has_image(image):
            return
        docker.ensure_answers()
        with tempfile.TemporaryDirectory(prefix="trainstack-project-") as place:
            build(props, Path(place), image)


def build(props: Props, place: Path, image: str) -> None:
    """`docker build` of a copy of the project, made in the empty folder `place`.

    Raises CommandError, also where the copy is not what the tag was made from: an image is built once for each tag.
    """
    trainer, own = props.get("trainer"), bool(props.get("dockerfile"))
    copied, file = place / "project", place / "Dockerfile"
    try:
        _copy(props, copied, file)
    except FileNotFoundError:
        raise CommandError(CHANGED) from None
    trainer_tag = trainer.rpartition(":")[2] if trainer else None
    found = project.build(copied, file if own else None, props["arguments"], trainer_tag)
    if found.tag != props["tag"]:
        raise CommandError(CHANGED)
    if not own:
        # A build of the project writes beside its sources, which are not to be in the image twice.
        project.copy(copied, place / "source")
        requirements.install(place / "source", place / "packages", props["trainer"])
        (place / ".dockerignore").write_text("source\n")
    given = {build_context.TRAINER_IMAGE: trainer} if trainer else {}
    push.docker_build(copied if own else place, file, {**props["arguments"], **given}, image)


def _copy(props: Props, copied: Path, file: Path) -> None:
    """Copy the project to the new folder `copied` and its Dockerfile, or ours, to `file`."""
    context, dockerfile = props.get("context"), props.get("dockerfile")
    folder = build_context.folder(context, dockerfile)
    assert folder, "the stack file names one"
    project.copy(folder, copied)
    file.write_text(build_context.resolved(dockerfile).read_text() if dockerfile else project.DOCKERFILE)


class ProjectImage(Resource, module="trainstack", name="ProjectImage"):
    """Output: `image`, its name in the engine."""

    image: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(ProjectImageProvider(), name, {**props, "image": None}, opts)
