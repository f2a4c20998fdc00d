"""The dynamic resource that builds a user's project as an image."""

from __future__ import annotations

from pathlib import Path

import pulumi

from infra.config import build_context
from infra.dynamic import DynamicResource, Props
from infra.image import project, push, requirements
from infra.image.providers import EngineImageProvider


class ProjectImageProvider(EngineImageProvider):
    """Builds an image from a user's folder, in the container engine.

    Properties: `tag`, `context` and `dockerfile` from the stack file, `arguments`, and `trainer`, the trainer image on
    which the build starts.
    """

    id = "project"

    def copy(self, props: Props, place: Path) -> str:
        context, dockerfile, trainer = props.get("context"), props.get("dockerfile"), props.get("trainer")
        folder = build_context.folder(context, dockerfile)
        assert folder, "the stack file names one"
        copied, file = place / "project", place / "Dockerfile"
        project.copy(folder, copied)
        file.write_text(build_context.resolved(dockerfile).read_text() if dockerfile else project.DOCKERFILE)
        trainer_tag = trainer.rpartition(":")[2] if trainer else None
        return project.build(copied, file if dockerfile else None, props["arguments"], trainer_tag).tag

    def build(self, props: Props, place: Path, image: str) -> None:
        trainer, copied = props.get("trainer"), place / "project"
        theirs = bool(props.get("dockerfile"))
        context = copied if theirs else place
        if context == place:
            # A build writes beside the project's sources. The image must not contain these files.
            project.copy(copied, place / "source")
            requirements.install(place / "source", place / "packages", props["trainer"])
            (place / ".dockerignore").write_text("source\n")
        given = {build_context.TRAINER_IMAGE: trainer} if trainer else {}
        push.docker_build(
            context, place / "Dockerfile", {**props["arguments"], **given}, image, theirs=theirs
        )


class ProjectImage(DynamicResource, provider=ProjectImageProvider):
    """Output: `image`, its name in the engine."""

    image: pulumi.Output[str]
