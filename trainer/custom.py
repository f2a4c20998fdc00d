"""Your own network and data: `--network package.module:Class` and `--data package.module:function`.

A network is an `nn.Module`. `Class` is called with the keyword arguments that its constructor names: `shape` (of one
input) and `classes` (the number of classes: one more than the largest target in memory, else that of `part.classes`,
else 0).
A function that returns a module is allowed, and so is a module. The module may have, besides `forward`:

    loss(outputs, targets) -> (n,)      the loss of each example; without it, cross-entropy of logits (n, classes)
    metric(outputs, targets) -> (n,)    what is averaged and printed as accuracy, finite numbers, more is better;
                                        without it, hits of the largest logit, or the negated loss if the outputs are
                                        no logits of classes
    summary() -> str                    text that rank 0 prints after training, such as a sample
    random = False                      training draws no random numbers (no dropout); saves a little time

Every process calls `function`. Of the keyword arguments `folder` (a pathlib.Path, the data directory) and `seed`
(int), the function gets those that it names. It returns two parts, to train on and to test on. Each part is one of

    (inputs, targets)       in memory, tensors, NumPy arrays or lists, one example in each row
    a map-style data set    `len(part)` and `part[number] -> (input, target)`; read during the training
    an iterable data set    `len(part)` examples make an epoch; `iter(part)` yields (input, target), the same pairs in
                            the same order in every process. `part.set_epoch(epoch)`, if it exists, is called first.
                            For data that does not fit into memory, and whose examples have no numbers.
    a DataLoader            of a map-style or iterable data set; the trainer uses its `collate_fn` and `drop_last`, and
                            for a map-style data set its sampler and workers. The trainer sets the number of examples
                            in a step. The sampler must give the same numbers each time; its
                            `set_epoch(epoch)`, if it exists, is called first

Inputs reach `forward` unchanged, with one more dimension for the examples. Every replica must get the same data, and
each trains on its share of every step.

`forward`, `loss` and `metric` may call other ranks by torch.distributed in training, if all shares of a step are equal;
not in evaluation, because ranks have different numbers of batches. A call that would fail or wait
for ever is refused before training.

The trainer seeds torch, NumPy and Python's `random` before it calls constructor, function, data set and `forward`.
The function has the same seed at each start; the seed of a share of a map-style data set depends on its place in the
epoch and on its rank, the seed of a stream on the epoch. So a resumed run draws the same numbers. The trainer cannot
seed your own generator.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer import draws
from trainer.exchange import put, same


class CustomError(Exception):
    """The user's network or data cannot be used; the message says what is missing or wrong."""


def load(reference: str, option: str) -> Any:
    """The object that `package.module:name` refers to. Raises CustomError."""
    module, _, name = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        fix = "put the module's folder on PYTHONPATH or install the module into the image"
        if places := closed(error.name or module):
            fix = f"{', '.join(places)} cannot be read: let user {os.getuid()} or group {os.getgid()} read it"
        raise CustomError(f"{option} {reference}: {error}; {fix}") from error
    except Exception as error:  # the user's module runs, and may raise anything
        raise CustomError(f"{option} {reference}: {raised(error)}") from error


def closed(module: str) -> list[str]:
    """Places of a module that this user may not read; Python calls such a module missing."""
    parts = module.split(".")
    inside = [Path(*parts[:depth]) for depth in range(len(parts) + 1)]
    places = dict.fromkeys(str(Path(top or ".") / each) for top in sys.path for each in inside)
    return [place for place in places if os.path.lexists(place) and not os.access(place, os.R_OK | os.X_OK)]


def call(reference: str, option: str, seed: int, /, **offered: Any) -> Any:
    """The module `reference`, or the result of calling `reference` with the offered keyword arguments that it names.

    The numbers that it draws depend on `seed`, and not on whether the module is imported already. Raises CustomError.
    """
    with draws.drawn_by(seed):
        target = load(reference, option)
    if isinstance(target, nn.Module):
        return target
    try:
        names = inspect.signature(target).parameters.keys()
        with draws.drawn_by(seed):
            return target(**{name: value for name, value in offered.items() if name in names})
    except CustomError:
        raise
    except Exception as error:  # the user's code may raise anything
        given = ", ".join(offered)
        raise CustomError(
            f"{option} {reference}: {raised(error)}; its parameters may have the names: {given}"
        ) from error


def raised(error: BaseException) -> str:
    """The message of an error in the user's code, and its line there."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).parent)
    places = [
        each
        for each in frames
        if not each.filename.startswith((ours, "<")) and "/torch/" not in each.filename
    ]
    where = f" ({Path(places[-1].filename).name}, line {places[-1].lineno})" if places else ""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = " ".join(lines[: 1 + lines[0].endswith(":")]) if lines else "it gives no reason"
    return f"{type(error).__name__}: {reason}{where}"


@dataclass(frozen=True)
class Objective:
    """The loss and metric of a network: its own, or a classifier's."""

    network: nn.Module
    label_smoothing: float = 0.0  # of cross-entropy; a network's own loss has none

    @property
    def has_own_loss(self) -> bool:
        """Whether the network has its own loss."""
        return hasattr(self.network, "loss")

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Losses to train on, shape (n,). Raises CustomError if such outputs have no loss."""
        if self.has_own_loss:
            return widened(self.network.loss(widened(outputs), targets))
        if not isinstance(outputs, Tensor):
            raise CustomError(
                f"forward returns a {type(outputs).__name__}, and not one tensor: return the logits (n, classes), or "
                "give the network a loss(outputs, targets)"
            )
        return functional.cross_entropy(
            widened(outputs), targets, reduction="none", label_smoothing=self.label_smoothing
        )

    def measures(self, outputs: Any, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Metric and loss of each example, shape (n,) each, without label smoothing."""
        loss = Objective(self.network).loss(outputs, targets)
        if hasattr(self.network, "metric"):
            return self.network.metric(outputs, targets), loss
        return (outputs.argmax(1) == targets) if self.classifies(outputs, targets) else -loss, loss

    def classifies(self, outputs: Any, targets: Tensor) -> bool:
        """Whether `targets` (n,) are class numbers, and the largest of `outputs` (n, classes) is the answer."""
        if hasattr(self.network, "metric") or not isinstance(outputs, Tensor) or outputs.dim() != 2:
            return False
        whole = targets.dim() == 1 and not targets.is_floating_point() and not targets.is_complex()
        return whole and targets.dtype is not torch.bool and outputs.shape[1] > 1


def widened(outputs: Any) -> Any:
    """16-bit numbers as float32, others unchanged."""
    return (
        outputs.float()
        if isinstance(outputs, Tensor) and outputs.dtype in (torch.half, torch.bfloat16)
        else outputs
    )


@contextmanager
def kept(network: nn.Module) -> Iterator[None]:
    """Restores the network afterwards: weights, buffers, attributes, modes. Also restores the random generators."""
    modules = [(module, dict(vars(module)), dict(module._buffers)) for module in network.modules()]
    buffers = {name: each.clone() for name, each in network.named_buffers()}
    parameters = [(each, each.detach().clone()) for each in network.parameters()]
    before = draws.states()
    try:
        yield
    finally:
        draws.take(before)
        for module, attributes, there in modules:
            for name in vars(module).keys() - attributes.keys():
                del vars(module)[name]
            vars(module).update(attributes)
            module._buffers.clear()
            module._buffers.update(there)
        for name, each in network.named_buffers():
            if not same(each, buffers[name]):
                put(network, name, buffers[name])
        with torch.no_grad():
            for each, value in parameters:
                if not same(each, value):
                    each.copy_(value)
