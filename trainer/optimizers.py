"""All parameters in one buffer, all gradients in another, and the optimizers that step over them.

torch's DistributedDataParallel fuses gradients too, but lays its buckets out anew after the first step of each
process. Over three ranks and more that changes the order of additions, so a resumed run would not end in the weights
of an undisturbed one, to the bit. Here the layout never changes.
"""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from trainer import recipes
from trainer.recipes import Recipe, Schedule, learning_rate


class OptimizerError(Exception):
    """torch has no such optimizer or schedule, or not with these arguments; the message says what it has."""


class Flat:
    """Moves the parameters of `network` into `values`, shape (n,); backward adds into `gradients`.

    `exchanged` is what the ranks add up, once a step: the gradients, then `loss`, one element, then `changes` of the
    network's buffers, such as the running means of a BatchNorm. So neither costs an exchange of its own.
    """

    def __init__(self, network: nn.Module) -> None:
        parameters = list(network.parameters())
        size = sum(parameter.numel() for parameter in parameters)
        device = parameters[0].device
        self.buffers = [buffer for buffer in network.buffers() if buffer.numel()]
        self.before = [buffer.clone() for buffer in self.buffers]
        self.values = torch.empty(size, device=device)
        self.exchanged = torch.zeros(size + 1 + sum(buffer.numel() for buffer in self.buffers), device=device)
        self.gradients, self.loss = self.exchanged[:size], self.exchanged[size : size + 1]
        self.changes = self.exchanged[size + 1 :]
        self.decaying = torch.zeros(size, device=device)  # 1 where weight decay applies
        start = 0
        for parameter in parameters:
            place = slice(start, start + parameter.numel())
            values = _like(parameter, self.values[place])
            values.copy_(parameter.detach())
            parameter.data = values
            parameter.grad = _like(parameter, self.gradients[place])
            self.decaying[place] = float(parameter.dim() > 1 and parameter.requires_grad)
            start += parameter.numel()

    def note_changes(self, weight: float) -> None:
        """Put this rank's changes of the buffers into the exchange, `weight` being its part of the step's examples.

        What did not change counts as nothing, even where it is infinite, as in a mask.
        """
        start = 0
        for buffer, before in zip(self.buffers, self.before, strict=True):
            place = self.changes[start : start + buffer.numel()]
            if weight:
                change = torch.where(buffer == before, 0, buffer.float() - before.float())
                place.copy_(change.reshape(-1)).mul_(weight)
            start += buffer.numel()

    def take_changes(self) -> None:
        """Give the buffers their mean over the ranks, weighted by examples; integers, such as counts, are rounded."""
        start = 0
        for buffer, before in zip(self.buffers, self.before, strict=True):
            change = self.changes[start : start + buffer.numel()].view(buffer.shape)
            if buffer.dtype == torch.bool:
                pass  # a mask
            elif buffer.is_floating_point():
                buffer.copy_(torch.where(change == 0, before, before + change))
            else:
                buffer.copy_(before + change.round().to(buffer.dtype))
            before.copy_(buffer)
            start += buffer.numel()

    def finite(self) -> bool:
        """Whether all parameters and changing buffers are numbers."""
        return bool(torch.isfinite(self.values).all()) and bool(torch.isfinite(self.changes).all())


def _like(parameter: Tensor, piece: Tensor) -> Tensor:
    """`piece` in the parameter's shape and memory format."""
    if parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last):
        out, into, height, width = parameter.shape
        return piece.view(out, height, width, into).permute(0, 3, 1, 2)
    return piece.view(parameter.shape)


class Optimizer(ABC):
    """Steps over the values of a Flat; `state` holds all that it remembers, nested tensors and numbers."""

    state: dict[str, Any]

    @abstractmethod
    def step(self, values: Tensor, gradients: Tensor, lr: float, count: int) -> None:
        """Change `values` (n,) in place by `gradients` (n,); `count` steps have been made before this one."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Go on from the `state` of an earlier process."""


class Elementwise(Optimizer):
    """The recipes' own optimizers, each over one buffer of values and one of gradients.

    Their arithmetic is torch.optim's, and a test compares them. torch.optim itself imports torch's compiler when the
    first optimizer is made, which takes 0.8 s of a run that may train for one.
    """

    slots: tuple[str, ...]

    def __init__(self, recipe: Recipe, values: Tensor) -> None:
        self.recipe = recipe
        self.state = {slot: torch.zeros_like(values) for slot in self.slots}

    def restore(self, state: dict[str, Any]) -> None:
        for slot, values in self.state.items():
            values.copy_(state[slot])


class Sgd(Elementwise):
    """Stochastic gradient descent with momentum, as torch.optim.SGD."""

    slots = ("velocity",)

    def step(self, values: Tensor, gradients: Tensor, lr: float, count: int) -> None:
        velocity = self.state["velocity"].mul_(self.recipe.momentum).add_(gradients)
        values.sub_(velocity, alpha=lr)


class Adadelta(Elementwise):
    """M. D. Zeiler, "ADADELTA" (arXiv:1212.5701), with torch's defaults."""

    slots = ("squares", "squared_steps")
    decay, epsilon = 0.9, 1e-6

    def step(self, values: Tensor, gradients: Tensor, lr: float, count: int) -> None:
        squares, squared_steps = self.state["squares"], self.state["squared_steps"]
        squares.mul_(self.decay).addcmul_(gradients, gradients, value=1 - self.decay)
        change = squared_steps.add(self.epsilon).div_(squares + self.epsilon).sqrt_().mul_(gradients)
        squared_steps.mul_(self.decay).addcmul_(change, change, value=1 - self.decay)
        values.sub_(change, alpha=lr)


class Adam(Elementwise):
    """D. P. Kingma and J. Ba, "Adam" (arXiv:1412.6980), with torch's epsilon."""

    slots = ("mean", "square")
    epsilon = 1e-8

    def step(self, values: Tensor, gradients: Tensor, lr: float, count: int) -> None:
        beta1, beta2 = self.recipe.momentum, self.recipe.beta2
        mean = self.state["mean"].lerp_(gradients, 1 - beta1)
        square = self.state["square"].mul_(beta2).addcmul_(gradients, gradients, value=1 - beta2)
        scale = square.sqrt().mul_((1 - beta2 ** (count + 1)) ** -0.5).add_(self.epsilon)
        values.addcdiv_(mean, scale, value=-lr / (1 - beta1 ** (count + 1)))


OPTIMIZERS: dict[str, type[Elementwise]] = {
    recipes.Optimizer.SGD: Sgd,
    recipes.Optimizer.ADADELTA: Adadelta,
    recipes.Optimizer.ADAM: Adam,
}


class TorchOptimizer(Optimizer):
    """A class of torch.optim by its name, over the network's own parameters, which are views of the Flat's values.

    Frozen parameters are not among them: their gradients are zero, with which torch would decay them all the same.
    Weight decay that the recipe gives is left to the trainer, unless the arguments set it. Raises OptimizerError.
    """

    def __init__(self, recipe: Recipe, network: nn.Module) -> None:
        kind = _class_of(torch.optim, torch.optim.Optimizer, recipe.optimizer)
        arguments = {"lr": recipe.lr, **_arguments(recipe.optimizer_args)}
        if recipe.weight_decay is not None and "weight_decay" in inspect.signature(kind).parameters:
            arguments.setdefault("weight_decay", 0.0)
        try:
            self.optimizer = kind([each for each in network.parameters() if each.requires_grad], **arguments)
        except (TypeError, ValueError) as error:
            raise OptimizerError(f"--optimizer {recipe.optimizer}: {error}") from error

    @property
    def state(self) -> dict[str, Any]:  # type: ignore[override]
        return dict(self.optimizer.state_dict())

    def step(self, values: Tensor, gradients: Tensor, lr: float, count: int) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()

    def restore(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state)


def build(recipe: Recipe, network: nn.Module, values: Tensor) -> Optimizer:
    """The recipe's optimizer over `values` (n,), all parameters of `network` in one tensor. Raises OptimizerError."""
    if recipe.optimizer in OPTIMIZERS:
        return OPTIMIZERS[recipe.optimizer](recipe, values)
    return TorchOptimizer(recipe, network)


def schedule(recipe: Recipe, epochs: int) -> Callable[[float], float]:
    """Learning rate by epochs done, whole or in part. Raises OptimizerError."""
    if recipe.schedule in set(Schedule):
        return lambda done: learning_rate(recipe, done, epochs)
    from torch.optim import lr_scheduler

    kind = _class_of(lr_scheduler, lr_scheduler.LRScheduler, recipe.schedule)
    try:
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=recipe.lr)
        rates = kind(optimizer, **_arguments(recipe.schedule_args))
        found = [optimizer.param_groups[0]["lr"]]
        for _ in range(epochs):  # all of them: so a resumed run has the same ones
            optimizer.step()
            rates.step()
            found.append(optimizer.param_groups[0]["lr"])
    except (TypeError, ValueError) as error:
        raise OptimizerError(f"--schedule {recipe.schedule}: {error}") from error
    return lambda done: float(found[int(done)])


def _class_of(module: Any, parent: type, name: str) -> Any:
    kind = getattr(module, name, None)
    if isinstance(kind, type) and issubclass(kind, parent) and kind is not parent:
        return kind
    found = sorted(
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, parent) and value is not parent
    )
    raise OptimizerError(f"{module.__name__} has no {name}; it has {', '.join(found)}")


def _arguments(text: str) -> dict[str, Any]:
    return dict(json.loads(text)) if text else {}
