"""Recipes: optimizer, learning rate and images per step. Standard library only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Optimizer(StrEnum):
    """The optimizers that a recipe may name."""

    SGD = "sgd"
    ADADELTA = "adadelta"
    ADAM = "adam"


class Schedule(StrEnum):
    """How the learning rate changes during a run."""

    CONSTANT = "constant"
    STEP = "step"  # lr x gamma after each epoch
    ONE_CYCLE = "one-cycle"  # up from lr / 25, then down to almost 0
    COSINE = "cosine"  # up from 0, then down to a tenth along half a cosine

    @property
    def spans_the_run(self) -> bool:
        """Whether the learning rate depends on the number of epochs, so that no further epochs can follow."""
        return self in (Schedule.ONE_CYCLE, Schedule.COSINE)


@dataclass(frozen=True)
class Recipe:
    """Defaults of a run; every option given overrides its field."""

    network: str
    optimizer: Optimizer | str  # a str names a class of torch.optim
    lr: float
    momentum: float  # SGD's momentum, Adam's first beta; Adadelta has none
    schedule: Schedule | str  # a str names a class of torch.optim.lr_scheduler, stepped after each epoch
    gamma: float
    global_batch: int  # images per step over all replicas
    epochs: int
    label_smoothing: float = 0.0
    beta2: float = 0.999  # Adam's second beta
    warm_up: float = 0.0  # part of a one-cycle or cosine run during which lr rises
    bf16: bool = False  # multiply in bfloat16 if the processor can
    # Decay of matrices and kernels per step, times lr; separate from the gradient, as in AdamW. None: the optimizer's.
    weight_decay: float | None = None
    clip: float = 0.0  # largest norm of all gradients together; 0: no limit
    accumulate: int = 1  # forward and backward passes per step and replica
    optimizer_args: str = ""  # JSON: further arguments of torch's class
    schedule_args: str = ""


RECIPES = {
    "published-sgd": Recipe(
        network="lenet",
        optimizer=Optimizer.SGD,
        lr=0.01,
        momentum=0.5,
        schedule=Schedule.CONSTANT,
        gamma=1.0,
        global_batch=64,
        epochs=1,
    ),
    "published-adadelta": Recipe(
        network="convnet",
        optimizer=Optimizer.ADADELTA,
        lr=1.0,
        momentum=0.0,
        schedule=Schedule.STEP,
        gamma=0.7,
        global_batch=64,
        epochs=14,
    ),
    "fast": Recipe(
        network="fast",
        optimizer=Optimizer.ADAM,
        lr=0.01,
        momentum=0.7,
        beta2=0.9,
        schedule=Schedule.ONE_CYCLE,
        warm_up=0.3,
        bf16=True,
        gamma=1.0,
        global_batch=256,
        epochs=1,
        label_smoothing=0.1,
    ),
}

# torch's defaults, for an optimizer that is not the recipe's.
MOMENTUM = {Optimizer.SGD: 0.0, Optimizer.ADAM: 0.9}

# By recipe and network: learning rates of networks that need another rate than the recipe's.
LEARNING_RATES = {("fast", "convnet"): 0.004}


@dataclass(frozen=True)
class Preset:
    """The defaults of one published system's manifest."""

    recipe: str
    datasets: tuple[str, ...]  # the first that is found; the first of the list is the published one
    backend: str | None = None  # None: nccl if every rank has a GPU, else gloo


FASHION_FIRST = ("fashion-mnist", "mnist", "kmnist")
MNIST_FIRST = ("mnist", "fashion-mnist", "kmnist")
PRESETS = {
    "pytorch-simple": Preset(recipe="published-sgd", datasets=FASHION_FIRST),
    "traindb": Preset(recipe="published-sgd", datasets=FASHION_FIRST),
    "convnet": Preset(recipe="published-adadelta", datasets=MNIST_FIRST),
    "nccl": Preset(recipe="published-sgd", datasets=MNIST_FIRST, backend="nccl"),
}


def usual_momentum(recipe: Recipe, optimizer: str) -> float:
    """The default of momentum, or of Adam's first beta.

    It is torch's default if `optimizer` is SGD or Adam and the recipe has another optimizer; else the recipe's value.
    """
    ours = optimizer == recipe.optimizer or optimizer not in MOMENTUM
    return recipe.momentum if ours else MOMENTUM[Optimizer(optimizer)]


def learning_rate(recipe: Recipe, done: float, epochs: int) -> float:
    """Learning rate after `done` epochs, which need not be a whole number, of `epochs`.

    A pure function of the progress, so that a resumed run needs no scheduler's state. One cycle follows L. N. Smith and
    N. Topin, "Super-Convergence" (arXiv:1708.07120), with straight lines. The cosine follows I. Loshchilov and
    F. Hutter, "SGDR" (arXiv:1608.03983), without restarts and down to a tenth.
    """
    if recipe.schedule == Schedule.STEP:
        return float(recipe.lr * recipe.gamma ** int(done))
    if recipe.schedule == Schedule.ONE_CYCLE:
        part, lowest = done / epochs, 0.04
        if part < recipe.warm_up:
            return recipe.lr * (lowest + (1 - lowest) * part / recipe.warm_up)
        return recipe.lr * max(1 - part, 0) / (1 - recipe.warm_up)
    if recipe.schedule == Schedule.COSINE:
        part = min(done / epochs, 1)
        if part < recipe.warm_up:
            return recipe.lr * part / recipe.warm_up
        falling = (part - recipe.warm_up) / (1 - recipe.warm_up) if recipe.warm_up < 1 else 1
        return recipe.lr * (0.1 + 0.9 * (1 + math.cos(math.pi * falling)) / 2)
    return recipe.lr
