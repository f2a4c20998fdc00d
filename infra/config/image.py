"""Section `image`: the trainer image, built here or ready-made."""

from __future__ import annotations

from enum import StrEnum

from pydantic import model_validator

from infra.config.names import Reference
from infra.config.section import Section, refusal, setting


class Target(StrEnum):
    """Targets of Dockerfile_training."""

    CPU = "cpu"
    GPU = "gpu"


class Preset(StrEnum):
    """The published systems whose options and defaults the trainer knows."""

    PYTORCH_SIMPLE = "pytorch-simple"
    TRAINDB = "traindb"
    CONVNET = "convnet"
    NCCL = "nccl"


class ImageConfig(Section):
    """Either `reference`, or what is built: `target`, `preset` and where it is pushed to."""

    target: Target = setting(about="Target of Dockerfile_training that is built.", default=Target.CPU)
    preset: Preset | None = setting(
        about="Published system whose recipe and defaults the image's trainer has; without it pytorch-simple.",
        default=None,
    )
    repository: Reference | None = setting(
        about="Where the built image is pushed to, with the Docker configuration's credentials; kind needs none.",
        default=None,
        allowed="a repository without tag and digest",
        examples=["ghcr.io/you/trainer"],
    )
    reference: Reference | None = setting(
        about="A ready-made image, used as it is instead of a build.",
        default=None,
        allowed="an image reference, by digest unless unpinned",
        examples=["ghcr.io/you/trainer@sha256:…"],
    )
    unpinned: bool = setting(
        about="Allow a reference without a digest.",
        default=False,
        allowed="true or false",
        examples=["true"],
    )

    @model_validator(mode="after")
    def _one_source(self) -> ImageConfig:
        if self.reference and (self.repository or self.preset or "target" in self.model_fields_set):
            raise refusal(
                "either reference (ready-made), or target, preset and repository (built here)",
                "remove reference to build the image, or the others to use a ready-made one",
                "reference",
                self.reference,
            )
        if self.repository and ("@" in self.repository or ":" in self.repository.rpartition("/")[2]):
            raise refusal(
                "a repository without tag and digest; both are made when the image is built",
                f"write `repository: {self.repository.partition('@')[0].rpartition(':')[0]}`",
                "repository",
                self.repository,
            )
        return self
