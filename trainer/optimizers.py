"""The optimizers: the recipes' own three, and torch's by name. Each changes the module's parameters in place."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from trainer import recipes
from trainer.exchange import real
from trainer.recipes import Recipe, Schedule, learning_rate

# Gradients alone are not enough for these: one calls the network again, the other needs sparse gradients.
OTHERS = ("LBFGS", "SparseAdam")


class OptimizerError(Exception):
    """torch has no such optimizer or schedule, or refuses its arguments; the message says what is possible."""


class Optimizer(ABC):
    """Changes parameters that have a gradient. For other parameters its state stays unchanged, as in torch."""

    @property
    @abstractmethod
    def state(self) -> dict[str, dict[str, Any]]:
        """The optimizer's state: parameter's name -> key -> tensor or number."""

    @abstractmethod
    def step(self, lr: float) -> None:
        """Change the parameters in place by their gradients."""

    @abstractmethod
    def restore(self, state: dict[str, dict[str, Any]]) -> None:
        """Continue from the `state` of an earlier process."""


class Elementwise(Optimizer):
    """The recipes' own optimizers.

    Their arithmetic is torch.optim's, operation by operation; a test compares each bit. torch.optim itself imports
    torch's compiler for the first optimizer. That takes 0.8 s, and a run may train for only one second.
    """

    slots: tuple[str, ...]

    def __init__(self, recipe: Recipe, parameters: Mapping[str, Tensor]) -> None:
        self.recipe, self.parameters = recipe, parameters
        self.kept: dict[str, dict[str, Any]] = {
            name: {"steps": 0, **{slot: torch.zeros_like(real(each.detach())) for slot in self.slots}}
            for name, each in parameters.items()
        }

    @property
    def state(self) -> dict[str, dict[str, Any]]:
        return self.kept

    def step(self, lr: float) -> None:
        moving = {name: each for name, each in self.parameters.items() if each.grad is not None}
        kept = [self.kept[name] for name in moving]
        for each in kept:
            each["steps"] += 1
        self.move(
            [real(each.detach()) for each in moving.values()],
            [real(each.grad) for each in moving.values() if each.grad is not None],
            [[each[slot] for each in kept] for slot in self.slots],
            [each["steps"] for each in kept],
            lr,
        )

    @abstractmethod
    def move(
        self,
        values: list[Tensor],
        gradients: list[Tensor],
        slots: list[list[Tensor]],
        steps: list[int],
        lr: float,
    ) -> None:
        """Change `values` and `slots` in place; `steps` has each value's number of steps, this one included."""

    def restore(self, state: dict[str, dict[str, Any]]) -> None:
        for name, kept in self.kept.items():
            kept["steps"] = state[name]["steps"]
            for slot in self.slots:
                kept[slot].copy_(state[name][slot])


class Sgd(Elementwise):
    """Stochastic gradient descent with momentum, as torch.optim.SGD."""

    slots = ("velocity",)

    def move(
        self,
        values: list[Tensor],
        gradients: list[Tensor],
        slots: list[list[Tensor]],
        steps: list[int],
        lr: float,
    ) -> None:
        (velocity,) = slots
        if self.recipe.momentum:
            torch._foreach_mul_(velocity, self.recipe.momentum)
            torch._foreach_add_(velocity, gradients)
        torch._foreach_add_(values, velocity if self.recipe.momentum else gradients, alpha=-lr)


class Adadelta(Elementwise):
    """M. D. Zeiler, "ADADELTA" (arXiv:1212.5701), with torch's defaults."""

    slots = ("squares", "squared_steps")
    decay, epsilon = 0.9, 1e-6

    def move(
        self,
        values: list[Tensor],
        gradients: list[Tensor],
        slots: list[list[Tensor]],
        steps: list[int],
        lr: float,
    ) -> None:
        squares, squared_steps = slots
        torch._foreach_mul_(squares, self.decay)
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - self.decay)
        deviations = torch._foreach_add(squares, self.epsilon)
        torch._foreach_sqrt_(deviations)
        changes = torch._foreach_add(squared_steps, self.epsilon)
        torch._foreach_sqrt_(changes)
        torch._foreach_div_(changes, deviations)
        torch._foreach_mul_(changes, gradients)
        torch._foreach_mul_(squared_steps, self.decay)
        torch._foreach_addcmul_(squared_steps, changes, changes, value=1 - self.decay)
        torch._foreach_add_(values, changes, alpha=-lr)


class Adam(Elementwise):
    """D. P. Kingma and J. Ba, "Adam" (arXiv:1412.6980), with torch's epsilon."""

    slots = ("mean", "square")
    epsilon = 1e-8

    def move(
        self,
        values: list[Tensor],
        gradients: list[Tensor],
        slots: list[list[Tensor]],
        steps: list[int],
        lr: float,
    ) -> None:
        beta1, beta2 = self.recipe.momentum, self.recipe.beta2
        means, squares = slots
        torch._foreach_lerp_(means, gradients, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - beta2)
        scales = torch._foreach_sqrt(squares)
        torch._foreach_div_(scales, [(1 - beta2**count) ** 0.5 for count in steps])
        torch._foreach_add_(scales, self.epsilon)
        torch._foreach_addcdiv_(values, means, scales, [-lr / (1 - beta1**count) for count in steps])


OPTIMIZERS: dict[str, type[Elementwise]] = {
    recipes.Optimizer.SGD: Sgd,
    recipes.Optimizer.ADADELTA: Adadelta,
    recipes.Optimizer.ADAM: Adam,
}


class TorchOptimizer(Optimizer):
    """A class of torch.optim by its name.

    If the recipe has a weight decay, the trainer itself does it, and the class does none unless the arguments set one.
    Raises OptimizerError.
    """

    def __init__(self, recipe: Recipe, parameters: Mapping[str, Tensor]) -> None:
        kind = _class_of(torch.optim, torch.optim.Optimizer, recipe.optimizer)
        arguments = _arguments(recipe.optimizer_args)
        if "lr" in arguments:
            raise OptimizerError(
                "--optimizer-args: the trainer sets lr by --lr and --schedule; leave lr out here and give --lr"
            )
        if recipe.weight_decay is not None and "weight_decay" in inspect.signature(kind).parameters:
            arguments.setdefault("weight_decay", 0.0)
        self.names = list(parameters)
        try:
            self.optimizer = kind(list(parameters.values()), lr=recipe.lr, **arguments)
        except (TypeError, ValueError) as error:
            raise OptimizerError(f"--optimizer {recipe.optimizer}: {error}") from error

    @property
    def state(self) -> dict[str, dict[str, Any]]:
        return {self.names[at]: kept for at, kept in self.optimizer.state_dict()["state"].items()}

    def step(self, lr: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()

    def restore(self, state: dict[str, dict[str, Any]]) -> None:
        numbered = {self.names.index(name): kept for name, kept in state.items()}
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": numbered})


def build(recipe: Recipe, parameters: Mapping[str, Tensor]) -> Optimizer:
    """The recipe's optimizer over `parameters`, by name. Raises OptimizerError."""
    if recipe.optimizer in OPTIMIZERS:
        return OPTIMIZERS[recipe.optimizer](recipe, parameters)
    return TorchOptimizer(recipe, parameters)


def schedule(recipe: Recipe, epochs: int) -> Callable[[float], float]:
    """The learning rate as a function of epochs done, also of parts of epochs. Raises OptimizerError."""
    if recipe.schedule in set(Schedule):
        return lambda done: learning_rate(recipe, done, epochs)
    from torch.optim import lr_scheduler

    kind = _class_of(lr_scheduler, lr_scheduler.LRScheduler, recipe.schedule)
    try:
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=recipe.lr)
        rates = kind(optimizer, **_arguments(recipe.schedule_args))
        found = [optimizer.param_groups[0]["lr"]]
        for _ in range(epochs):  # of all epochs, so that a resumed run has the same rates
            optimizer.step()
            rates.step()
            found.append(optimizer.param_groups[0]["lr"])
    except (TypeError, ValueError) as error:
        raise OptimizerError(f"--schedule {recipe.schedule}: {error}") from error
    return lambda done: float(found[int(done)])


def _class_of(module: Any, parent: type, name: str) -> Any:
    found = {
        name: value
        for name, value in sorted(vars(module).items())
        if isinstance(value, type)
        and issubclass(value, parent)
        and value is not parent
        and name not in OTHERS
    }
    if name not in found:
        reason = " that steps by gradients alone" if name in OTHERS else ""
        raise OptimizerError(f"{module.__name__} has no {name}{reason}; it has {', '.join(found)}")
    return found[name]


def _arguments(text: str) -> dict[str, Any]:
    return dict(json.loads(text)) if text else {}
