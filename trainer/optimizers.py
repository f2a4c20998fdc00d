"""The recipes' optimizers, each over one buffer of values and one of gradients.

Their arithmetic is torch.optim's, and a test compares them. torch.optim itself imports torch's compiler when the first
optimizer is made, which takes 0.8 s of a run that may train for one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from trainer import recipes
from trainer.recipes import Recipe


class Optimizer(ABC):
    """`state` holds all that it remembers: tensors by name, each in the shape of the values."""

    slots: tuple[str, ...]

    def __init__(self, recipe: Recipe, values: Tensor) -> None:
        self.recipe = recipe
        self.state = {slot: torch.zeros_like(values) for slot in self.slots}

    @abstractmethod
    def step(self, values: Tensor, gradients: Tensor, lr: float, count: int) -> None:
        """Change `values` in place; `count` steps have been made before this one."""


class Sgd(Optimizer):
    slots = ("velocity",)

    def step(self, values: Tensor, gradients: Tensor, lr: float, count: int) -> None:
        velocity = self.state["velocity"].mul_(self.recipe.momentum).add_(gradients)
        values.sub_(velocity, alpha=lr)


class Adadelta(Optimizer):
    """M. D. Zeiler, "ADADELTA" (arXiv:1212.5701), with torch's defaults."""

    slots = ("squares", "squared_steps")
    decay, epsilon = 0.9, 1e-6

    def step(self, values: Tensor, gradients: Tensor, lr: float, count: int) -> None:
        squares, squared_steps = self.state["squares"], self.state["squared_steps"]
        squares.mul_(self.decay).addcmul_(gradients, gradients, value=1 - self.decay)
        change = squared_steps.add(self.epsilon).div_(squares + self.epsilon).sqrt_().mul_(gradients)
        squared_steps.mul_(self.decay).addcmul_(change, change, value=1 - self.decay)
        values.sub_(change, alpha=lr)


class Adam(Optimizer):
    """D. P. Kingma and J. Ba, "Adam" (arXiv:1412.6980), with torch's epsilon."""

    slots = ("mean", "square")
    epsilon = 1e-8

    def step(self, values: Tensor, gradients: Tensor, lr: float, count: int) -> None:
        beta1, beta2 = self.recipe.momentum, self.recipe.beta2
        mean = self.state["mean"].lerp_(gradients, 1 - beta1)
        square = self.state["square"].mul_(beta2).addcmul_(gradients, gradients, value=1 - beta2)
        scale = square.sqrt().mul_((1 - beta2 ** (count + 1)) ** -0.5).add_(self.epsilon)
        values.addcdiv_(mean, scale, value=-lr / (1 - beta1 ** (count + 1)))


OPTIMIZERS: dict[recipes.Optimizer, type[Optimizer]] = {
    recipes.Optimizer.SGD: Sgd,
    recipes.Optimizer.ADADELTA: Adadelta,
    recipes.Optimizer.ADAM: Adam,
}
