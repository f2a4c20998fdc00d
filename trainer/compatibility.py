"""Whether a user's network takes a user's data: tried before anybody trains, on the sizes that will come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from trainer import networks
from trainer.custom import CustomError, Objective, kept, raised
from trainer.distributed import SetupError, World
from trainer.draws import drawn_by
from trainer.examples import Examples, Tensors, share_of
from trainer.options import Config

IGNORED = -100  # a target that torch's cross-entropy passes over


def make_lazy_layers(network: nn.Module, train: Examples, config: Config) -> None:
    """Have lazy modules make their parameters, by one forward pass. Raises SetupError."""
    if any(isinstance(each, nn.parameter.UninitializedTensorMixin) for each in network.parameters()):
        inputs, targets = train.first()
        with drawn_by(config.seed), torch.no_grad(), _refusing(config, "in evaluation", inputs, targets):
            network.eval()
            network(inputs)


def check(
    network: nn.Module,
    train: Examples,
    test: Examples,
    config: Config,
    world: World,
    forward_pass: AbstractContextManager[object],
) -> bool:
    """Whether the network classifies. Raises SetupError when it does not take the data.

    It is tried on a batch to test on, and with a backward pass on shares of the sizes that will come, and is left as it
    was.
    """
    if config.network in networks.NETWORKS and not config.data:
        return True
    objective = Objective(network, config.settings.label_smoothing)
    last = len(test) % config.test_batch_size
    with kept(network):
        for count in sorted({min(3, len(test)), *([last] if 0 < last < 3 else [])}):
            inputs, targets = test.first(count)
            with _refusing(config, "in evaluation", inputs, targets), torch.no_grad():
                network.eval()
                outputs = network(inputs)
                classifies = objective.classifies(outputs, targets)
                if classifies and not objective.has_own_loss:
                    _ensure_classes(train, test, outputs.shape[1])
                metric, loss = objective.measures(outputs, targets)
                _ensure_one_each(objective, metric, count, "metric")
                _ensure_one_each(objective, loss, count, "loss")
        for count in sizes_of_shares(train.totals(config.global_batch(world.size)), config, world):
            inputs, targets = train.first(count)
            with _refusing(config, "in training", inputs, targets):
                network.train()
                with forward_pass:
                    outputs = network(inputs)
                loss = objective.loss(outputs, targets)
                _ensure_one_each(objective, loss, count, "loss")
                loss.sum().backward()
            network.zero_grad()
    return classifies


def sizes_of_shares(totals: set[int], config: Config, world: World) -> list[int]:
    """How many examples a forward pass gets in training, over all ranks and steps; the largest first.

    Parameters:
        totals: how many examples all ranks have together in a step.
    """
    sizes = set()
    for total in totals:
        for rank in range(world.size):
            share = len(share_of(range(total), rank, world.size))
            passes = min(config.settings.accumulate, share)
            sizes |= {len(share_of(range(share), number, passes)) for number in range(passes)}
    return sorted(sizes, reverse=True)


@contextmanager
def _refusing(config: Config, when: str, inputs: Tensor, targets: Tensor) -> Iterator[None]:
    """Raises SetupError for whatever the user's network raises inside."""
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, CustomError) else raised(error)
        if (when, len(inputs)) == ("in training", 1):
            reason += "; an epoch comes to a share of one example: choose another --global-batch-size or --accumulate"
        raise SetupError(
            f"--network {config.network} does not take the data, inputs of shape {tuple(inputs.shape)} and targets of "
            f"shape {tuple(targets.shape)}, {when}: {reason}"
        ) from error


def _ensure_one_each(objective: Objective, found: Any, count: int, what: str) -> None:
    """Raises CustomError unless there is one number of each of `count` examples."""
    if not isinstance(found, Tensor) or found.shape != (count,):
        there = tuple(found.shape) if isinstance(found, Tensor) else f"a {type(found).__name__}"
        fix = "" if objective.has_own_loss else "; bring a loss(outputs, targets)"
        raise CustomError(
            f"loss and metric have to give one number for each example; of {count} examples the {what} is {there}{fix}"
        )


def _ensure_classes(train: Examples, test: Examples, classes: int) -> None:
    """Raises CustomError for class numbers in memory that cross-entropy of logits (n, classes) does not know."""
    for which, part in (("train on", train), ("test on", test)):
        known = part.targets[part.targets != IGNORED] if isinstance(part, Tensors) else torch.zeros(0)
        if len(known) and not 0 <= int(known.min()) <= int(known.max()) < classes:
            raise CustomError(
                f"targets to {which} go from {int(known.min())} to {int(known.max())}, and the outputs are of the "
                f"classes 0 to {classes - 1}"
            )
