"""Section `job.training`: options of the trainer, written into the command as the published manifests write them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from infra.config.section import Count, Natural, Section


class Backend(StrEnum):
    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"


class Dataset(StrEnum):
    """`auto`: the MNIST files in the data folder, else the digits in the image."""

    AUTO = "auto"
    MNIST = "mnist"
    FASHION_MNIST = "fashion-mnist"
    DIGITS = "digits"


class TrainingConfig(Section):
    """What is not set stays the trainer's own default."""

    epochs: Count | None = Field(default=None, description="a whole number of at least 1", examples=[1])
    digits_epochs: Count | None = Field(
        default=None,
        description="epochs where dataset auto falls back to digits, a whole number of at least 1",
        examples=[12],
    )
    dataset: Dataset | None = Field(default=None, description="a data set")
    batch_size: Count | None = Field(
        default=None, description="images a step and replica, at least 1", examples=[64]
    )
    test_batch_size: Count | None = Field(
        default=None, description="a whole number of at least 1", examples=[1000]
    )
    lr: float | None = Field(
        default=None, gt=0, description="learning rate, a number above 0", examples=[0.01]
    )
    momentum: float | None = Field(default=None, ge=0, lt=1, description="0 up to but not 1", examples=[0.5])
    gamma: float | None = Field(default=None, gt=0, le=1, description="above 0, at most 1", examples=[0.7])
    seed: Natural | None = Field(default=None, description="a whole number of at least 0", examples=[1])
    log_interval: Count | None = Field(
        default=None, description="steps between progress lines, at least 1", examples=[10]
    )
    backend: Backend | None = Field(default=None, description="gloo, nccl or mpi")


# The dataset travels in the environment: hand-written commands may still override it.
NOT_OPTIONS = {"dataset", "digits_epochs"}


def options(training: TrainingConfig) -> dict[str, str]:
    """Option name without dashes -> value, in the order of the section's fields."""
    values = {
        name: getattr(training, name) for name in TrainingConfig.model_fields if name not in NOT_OPTIONS
    }
    return {name.replace("_", "-"): str(value) for name, value in values.items() if value is not None}
