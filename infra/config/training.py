"""Section `job.training`: options of the trainer.

The options are written into the container's command or arguments, as in the published manifests.
"""

from __future__ import annotations

from enum import StrEnum

from infra.config.api_paths import in_command, in_container
from infra.config.section import Count, Natural, Outcome, Section, every_key, setting


class Backend(StrEnum):
    """Back ends of torch.distributed."""

    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"


class Dataset(StrEnum):
    """With `auto`, the data set whose files are in the data folder; without files, the digits in the image."""

    AUTO = "auto"
    MNIST = "mnist"
    FASHION_MNIST = "fashion-mnist"
    KMNIST = "kmnist"
    DIGITS = "digits"


class TrainingConfig(Section):
    """A key that is not set has the trainer's default."""

    model_config = every_key(changing=Outcome.JOB_REPLACED, paths=in_command("command", "args"))

    epochs: Count | None = setting(
        about="Number of passes over the training images.",
        default=None,
        allowed="a whole number of at least 1",
        examples=[1],
    )
    digits_epochs: Count | None = setting(
        about=(
            "Number of epochs if the stack finds no data files for `dataset: auto`, and takes `digits`; in all other "
            "cases, `epochs` counts."
        ),
        default=None,
        allowed="a whole number of at least 1",
        examples=[12],
    )
    dataset: Dataset | None = setting(
        about=(
            "Data set. With auto, the files in the data folder decide; without such files it is `digits`, which is in "
            "the trainer image. [Data](data.md#a-published-data-set) says which folder counts."
        ),
        default=None,
        paths=in_container("env"),
    )
    batch_size: Count | None = setting(
        about="Number of images per step in each process of a replica.",
        default=None,
        allowed="a whole number of at least 1",
        examples=[64],
    )
    test_batch_size: Count | None = setting(
        about="Number of images per step when the model is evaluated.",
        default=None,
        allowed="a whole number of at least 1",
        examples=[1000],
    )
    lr: float | None = setting(
        about="Learning rate.", default=None, gt=0, allowed="a number above 0", examples=[0.01]
    )
    momentum: float | None = setting(
        about="Momentum of the optimizer.",
        default=None,
        ge=0,
        lt=1,
        allowed="a number of at least 0, below 1",
        examples=[0.5],
    )
    gamma: float | None = setting(
        about="Factor that multiplies the learning rate after each epoch; used only with a step schedule.",
        default=None,
        gt=0,
        le=1,
        allowed="a number above 0, at most 1",
        examples=[0.7],
    )
    seed: Natural | None = setting(
        about="Seed of the weights and of the images' order.",
        default=None,
        allowed="a whole number of at least 0",
        examples=[1],
    )
    log_interval: Count | None = setting(
        about="Number of steps between two lines of progress.",
        default=None,
        allowed="a whole number of at least 1",
        examples=[10],
    )
    backend: Backend | None = setting(
        about="Library with which replicas exchange gradients; default: nccl if each has a GPU, else gloo.",
        default=None,
    )


# The data set is in the environment: a hand-written command can still override it.
NOT_OPTIONS = {"dataset", "digits_epochs"}


def options(training: TrainingConfig) -> dict[str, str]:
    """Option name without dashes -> value, in the order of the section's fields."""
    values = {
        name: getattr(training, name) for name in TrainingConfig.model_fields if name not in NOT_OPTIONS
    }
    return {name.replace("_", "-"): str(value) for name, value in values.items() if value is not None}
