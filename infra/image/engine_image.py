"""The image of a stack in the container engine: `pulumi up` builds it, or `make fetch` before that."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from infra import agreed, paths, process
from infra.config.image import ImageConfig
from infra.config.load import from_file
from infra.dynamic import Props
from infra.image import inputs
from infra.image.project_image import ProjectImageProvider
from infra.image.providers import BuiltImageProvider


@dataclass(frozen=True)
class EngineImage:
    """The builds of the jobs' image.

    Parameters:
        tag: of the last build, in the engine.
        trainer: properties of `BuiltImage`; None if the user's Dockerfile does not use our image.
        project: properties of `ProjectImage`, without `trainer`; None for our image alone.
    """

    tag: str
    trainer: Props | None
    project: Props | None


def of(config: ImageConfig, environment: Mapping[str, str] = os.environ) -> EngineImage:
    """The builds that `config` asks for, with the bases that `environment` names."""
    build = inputs.build(config, paths.ROOT, environment)
    trainer = {"target": build.target.value, "arguments": dict(build.arguments), "tag": build.tag}
    own = inputs.project_build(config, build.tag, inputs.bases(environment))
    if own is None:
        return EngineImage(build.tag, trainer, None)
    named = {"context": config.context, "dockerfile": config.dockerfile}
    project = {**named, "arguments": dict(own.arguments), "tag": own.tag}
    return EngineImage(own.tag, trainer if own.trainer else None, project)


def build(config: ImageConfig) -> str:
    """Build the image if the engine lacks it. Returns its name. Raises CommandError."""
    wanted = of(config, process.variables())
    trainer = BuiltImageProvider().built(wanted.trainer)["image"] if wanted.trainer else None
    if wanted.project is None:
        return str(trainer)
    return str(ProjectImageProvider().built({**wanted.project, "trainer": trainer})["image"])


def built(config: ImageConfig) -> str:
    """As `build`, except for a ready-made image, which the cluster pulls. Returns a line about the image."""
    return f"{config.reference}: the cluster pulls it" if config.reference else f"image: {build(config)}"


if __name__ == "__main__":
    # Ending this process ends the build, too: the build command is its child.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        print(built(from_file(paths.stack_file(sys.argv[1])).image))
    except agreed.ProgramError as error:
        sys.exit(str(error))
