"""The dynamic resource that builds a user's project as an image."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, ReadResult, Resource, UpdateResult

from infra import docker
from infra.config import build_context
from infra.dynamic import Props, Provider, missing, plain_props
from infra.image import project, push, requirements
from infra.image.inputs import REPOSITORY


class ProjectImageProvider(Provider):
    """A build of a user's folder in the engine.

    Properties: `tag`, `context` and `dockerfile` as the stack file has them, `arguments`, and `trainer`, the image
    that it builds on. It is never deleted, as the trainer image is not.
    """

    updated_by = ("tag",)

    def create(self, props: Props) -> CreateResult:
        return CreateResult("project", _build(props))

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        return UpdateResult(_build(_news))

    def read(self, id_: str, props: Props) -> ReadResult:
        return ReadResult(id_, plain_props(props)) if docker.has_image(props["image"]) else missing()


def _build(props: Props) -> Props:
    image = f"{REPOSITORY}:{props['tag']}"
    if not docker.has_image(image):
        docker.ensure_answers()
        with tempfile.TemporaryDirectory(prefix="trainstack-project-") as place:
            build(props, Path(place), image)
    return plain_props(props) | {"image": image}


def build(props: Props, place: Path, image: str) -> None:
    """`docker build` of a copy of the project, made in the empty folder `place`. Raises CommandError."""
    context, dockerfile = props.get("context"), props.get("dockerfile")
    folder = build_context.folder(context, dockerfile)
    assert folder, "the stack file names one"
    copied, file = place / "project", place / "Dockerfile"
    project.copy(folder, copied)
    trainer = {build_context.TRAINER_IMAGE: props["trainer"]} if props.get("trainer") else {}
    file.write_text(build_context.resolved(dockerfile).read_text() if dockerfile else project.DOCKERFILE)
    if not dockerfile:
        # A build of the project writes beside its sources, which are not to be in the image twice.
        project.copy(folder, place / "source")
        requirements.install(place / "source", place / "packages", props["trainer"])
        (place / ".dockerignore").write_text("source\n")
    push.docker_build(copied if dockerfile else place, file, {**props["arguments"], **trainer}, image)


class ProjectImage(Resource, module="trainstack", name="ProjectImage"):
    """Output: `image`, its name in the engine."""

    image: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(ProjectImageProvider(), name, {**props, "image": None}, opts)
