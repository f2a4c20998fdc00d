"""All parameters in one buffer, all gradients in another, and the optimizers that step over them."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from trainer import recipes
from trainer.recipes import Recipe


class Flat:
    """Moves the parameters of `network` into `values`, shape (n,); backward adds into `gradients`.

    The gradients' buffer has one element more, `loss`: it travels with them, so that a step's loss over all ranks
    costs no exchange of its own.
    """

    def __init__(self, network: nn.Module) -> None:
        parameters = list(network.parameters())
        size = sum(parameter.numel() for parameter in parameters)
        device = parameters[0].device
        self.values = torch.empty(size, device=device)
        self.buffer = torch.zeros(size + 1, device=device)
        self.gradients, self.loss = self.buffer[:size], self.buffer[size:]
        start = 0
        for parameter in parameters:
            place = slice(start, start + parameter.numel())
            values = _like(parameter, self.values[place])
            values.copy_(parameter.detach())
            parameter.data = values
            parameter.grad = _like(parameter, self.gradients[place])
            start += parameter.numel()


def _like(parameter: Tensor, piece: Tensor) -> Tensor:
    """`piece` in the parameter's shape and memory format."""
    if parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last):
        out, into, height, width = parameter.shape
        return piece.view(out, height, width, into).permute(0, 3, 1, 2)
    return piece.view(parameter.shape)


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
