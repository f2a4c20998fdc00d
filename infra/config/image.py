"""Section `image`: the trainer image, built here or ready-made."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from infra.config.names import Reference
from infra.config.section import Section, refusal


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
    target: Target = Field(default=Target.CPU, description="cpu or gpu")
    preset: Preset | None = Field(
        default=None, description="a preset of the trainer: its recipe and defaults"
    )
    repository: Reference | None = Field(
        default=None,
        description="where a built image is pushed to, with the Docker configuration's credentials",
        examples=["ghcr.io/you/trainer"],
    )
    reference: Reference | None = Field(
        default=None,
        description="a ready-made image, used as it is",
        examples=["ghcr.io/you/trainer@sha256:…"],
    )
    unpinned: bool = Field(
        default=False, description="true allows a reference without a digest", examples=["true"]
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
