"""Section `image`: the trainer image, which is ready-made or built here, with or without a user's project."""

from __future__ import annotations

from enum import StrEnum

from pydantic import model_validator

from infra.config import build_context
from infra.config.names import Reference
from infra.config.section import Outcome, Section, every_key, refusal, setting

GPU_BASE = "GPU_BASE"
"""The build argument that names the base of target `gpu`."""


class Target(StrEnum):
    """Targets of Dockerfile_training."""

    CPU = "cpu"
    GPU = "gpu"


class Preset(StrEnum):
    """The published systems whose recipe and defaults the trainer knows."""

    PYTORCH_SIMPLE = "pytorch-simple"
    TRAINDB = "traindb"
    CONVNET = "convnet"
    NCCL = "nccl"


class ImageConfig(Section):
    """Either a ready-made image (`reference`), or an image to build: its target, its sources, its repository."""

    model_config = every_key(changing=Outcome.JOB_REPLACED)

    target: Target = setting(about="Target of Dockerfile_training to build.", default=Target.CPU)
    preset: Preset | None = setting(
        about=(
            "The published training system whose defaults our trainer uses: network, optimizer and schedule (its "
            "[recipe](trainer.md#what-it-trains)), data set and back end; default: pytorch-simple."
        ),
        default=None,
    )
    context: str | None = setting(
        about="Folder of your own project; the build adds it, and the packages that it requires, to our image.",
        default=None,
        min_length=1,
        allowed="a folder's path, absolute or relative to the clone",
        examples=["../my-project"],
    )
    dockerfile: str | None = setting(
        about=(
            "Your own Dockerfile, built instead of our image; its build context is `context`, else the "
            "Dockerfile's folder."
        ),
        default=None,
        min_length=1,
        allowed="a Dockerfile's path, absolute or relative to the clone",
        examples=["../my-project/Dockerfile"],
    )
    repository: Reference | None = setting(
        about=(
            "Where to push the built image, with the credentials of Docker's configuration; a kind cluster needs no "
            "repository."
        ),
        default=None,
        allowed="a repository without tag and digest",
        examples=["ghcr.io/you/trainer"],
    )
    reference: Reference | None = setting(
        about="A ready-made image, used unchanged instead of a build.",
        default=None,
        allowed="an image reference, by digest unless unpinned",
        examples=["ghcr.io/you/trainer@sha256:…"],
    )
    unpinned: bool = setting(
        about="Allow a reference without a digest.",
        default=False,
        examples=["true"],
        changing=Outcome.NOTHING,
    )

    @model_validator(mode="after")
    def _one_source(self) -> ImageConfig:
        built = (self.repository, self.preset, self.context, self.dockerfile)
        if self.reference and (any(built) or "target" in self.model_fields_set):
            raise refusal(
                "either reference (ready-made), or target, preset, context, dockerfile and repository (built here)",
                "remove reference to build the image, or remove the other keys to use the ready-made image",
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
        build_context.ensure_usable(self.context, self.dockerfile)
        self._ensure_ours_counts()
        return self

    @property
    def is_wholly_own(self) -> bool:
        """Whether the image is built by the user's own Dockerfile, without our image as its base."""
        if not self.dockerfile:
            return False
        return build_context.TRAINER_IMAGE not in build_context.declared(
            build_context.resolved(self.dockerfile)
        )

    @property
    def uses_gpu_base(self) -> bool:
        """Whether a build of the image uses the base of target `gpu`; a user's own Dockerfile can declare it, too."""
        if self.reference:
            return False
        if self.dockerfile and GPU_BASE in build_context.declared(build_context.resolved(self.dockerfile)):
            return True
        return self.target is Target.GPU and not self.is_wholly_own

    def _ensure_ours_counts(self) -> None:
        """Raises a refusal for `target` or `preset` if the user's Dockerfile does not build on our image."""
        if not self.is_wholly_own:
            return
        for key in ("target", "preset"):
            if key in self.model_fields_set and getattr(self, key) is not None:
                raise refusal(
                    "no value with a Dockerfile that does not build on our trainer image",
                    f"remove {key}, or begin the Dockerfile with `ARG {build_context.TRAINER_IMAGE}` and "
                    f"`FROM ${{{build_context.TRAINER_IMAGE}}}`",
                    key,
                    getattr(self, key).value,
                )
