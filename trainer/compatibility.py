"""Checks before training that a user's network accepts a user's data, in shares of the sizes that training will have.
Also checks that the network is the same in each process, by comparing the network's outputs for the first examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trainer import networks
from trainer.custom import CustomError, Objective, kept, raised
from trainer.distributed import SetupError, World
from trainer.draws import drawn_by
from trainer.examples import Examples, Tensors, share_of
from trainer.exchange import real, same
from trainer.options import Config
from trainer.precision import whole_float32

IGNORED = -100  # a target that torch's cross-entropy ignores
OUTPUTS = "outputs on the first examples"
SAMPLED = 1000  # how many numbers of one tensor are compared
ROUNDING = 0.01  # of the largest number: how far a sum may differ on another processor or with other threads
_TESTS_UNEVENLY = (
    "would wait for ever or fail: replicas have different numbers of examples to test on; choose a --test-batch-size "
    "that gives all the same number, call other replicas only while self.training is true, or train with one replica"
)
_TRAINS_UNEVENLY = (
    "would wait for ever or fail: in the last step of an epoch replicas have different numbers of examples; choose a "
    "--global-batch-size with equal shares in each step, also the last, or train with one replica"
)


def make_lazy_layers(network: nn.Module, train: Examples, config: Config) -> None:
    """Let lazy modules create their parameters, by one forward pass. Raises SetupError."""
    if any(isinstance(each, nn.parameter.UninitializedTensorMixin) for each in network.parameters()):
        inputs, targets = train.first()
        torch.cuda.manual_seed_all(config.seed)  # drawn_by does not seed GPUs
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
    """Whether the network classifies. Raises SetupError if it does not accept the data.

    Runs the network on a test batch, and, with a backward pass, on shares of the sizes that training will have. The
    network is unchanged afterwards.
    """
    if config.network in networks.NETWORKS and not config.data:
        return True
    objective = Objective(network, config.settings.label_smoothing)
    last = len(test) % config.test_batch_size
    totals = train.totals(config.global_batch(world.size))
    tests_evenly = world.size == 1 or len(test) % (config.test_batch_size * world.size) == 0
    trains_evenly = even(network, totals, config, world)
    with kept(network):
        for count in sorted({min(3, len(test)), *([last] if 0 < last < 3 else [])}):
            inputs, targets = test.first(count)
            with (
                _refusing(config, "in evaluation", inputs, targets),
                torch.no_grad(),
                Apart(tests_evenly, _TESTS_UNEVENLY),
            ):
                network.eval()
                outputs = network(inputs)
                classifies = objective.classifies(outputs, targets)
                if classifies and not objective.has_own_loss:
                    _ensure_classes(train, test, outputs.shape[1])
                metric, loss = objective.measures(outputs, targets)
                _ensure_one_each(objective, metric, count, "metric")
                _ensure_one_each(objective, loss, count, "loss")
        for count in sizes_of_shares(totals, config, world):
            inputs, targets = train.first(count)
            with (
                _refusing(config, "in training", inputs, targets),
                Apart(trains_evenly, _TRAINS_UNEVENLY),
            ):
                network.train()
                with forward_pass:
                    outputs = network(inputs)
                loss = objective.loss(outputs, targets)
                _ensure_one_each(objective, loss, count, "loss")
                loss.sum().backward()
            network.zero_grad()
    return classifies


class FirstExamples:
    """Finds a network that differs on another rank, or in the process that continues the run.

    Such a network keeps state outside parameters and buffers: numbers from its own generator, the order of a set, a
    tensor as a plain attribute that training changes. Our own networks keep no such state, and are not compared.

    Parameters:
        inputs: the first test inputs, (n, ...); None if nothing is compared.
        draws_unseeded: whether the network's outputs differ each time for the same inputs.
    """

    def __init__(
        self, network: nn.Module, test: Examples, config: Config, world: World, machine: str
    ) -> None:
        """`machine`: what rounding in this process depends on."""
        self.network, self.seed, self.world, self.machine = network, config.seed, world, machine
        self.ours = config.network in networks.NETWORKS
        drawn = getattr(test, "draws_unseeded", False)
        self.inputs = None if self.ours or drawn else test.first()[0]
        first, again = self.record(), self.record()
        self.draws_unseeded = bool(differing(first, again))
        if first is None or self.draws_unseeded:
            self.inputs = None

    def record(self) -> dict[str, Any] | None:
        """Up to SAMPLED numbers (n,) of the outputs now, and of each attribute that is a tensor or array, by name.

        The network is unchanged. None if nothing is compared, or `forward` calls other ranks.
        """
        if self.inputs is None:
            return None
        device = self.world.device
        apart = Apart(False, "is not called here") if self.world.size > 1 else nullcontext()
        with (
            kept(self.network),
            torch.random.fork_rng([device] if device.type == "cuda" else []),
            drawn_by(self.seed),
            torch.no_grad(),
            whole_float32(),
        ):
            torch.cuda.manual_seed_all(self.seed)  # drawn_by does not seed GPUs
            self.network.eval()
            try:
                with apart:
                    outputs = self.network(self.inputs.clone())
            except CustomError:
                return None
        values = {OUTPUTS: _sample(tree_leaves(outputs))}
        for path, module in self.network.named_modules():
            kept_there = {
                f"{path}.{name}".lstrip("."): _sample([each]) for name, each in vars(module).items()
            }
            values |= {name: each for name, each in kept_there.items() if len(each)}
        return {"machine": self.machine, "values": values}

    def agree(self, when: str) -> None:
        """Raises SetupError, naming a rank and what differs, unless all ranks have the same network."""
        first, *others = [None] if self.ours else self.world.gather(self.record())
        for rank, other in enumerate(others, 1):
            if names := differing(first, other):
                raise SetupError(
                    f"the replicas differ in the network {when} ({', '.join(names)}: other numbers on rank {rank} than "
                    "on rank 0); draw numbers that the network keeps with torch's, NumPy's or Python's functions, and "
                    "register tensors that training changes as buffers"
                )

    def ensure_same(self, before: dict[str, Any] | None) -> None:
        """Raises SetupError on all ranks, naming what differs, if the network of a rank differs from `before`."""
        for names in [] if self.ours else self.world.gather(differing(before, self.record())):
            if names:
                raise SetupError(
                    f"the network differs from the checkpoint's ({', '.join(names)}: other numbers than "
                    "before); draw numbers that the network keeps with torch's, NumPy's or Python's functions, and "
                    "register tensors that training changes as buffers, or give the run another name (--run or "
                    "TRAINER_RUN)"
                )


def differing(one: dict[str, Any] | None, other: dict[str, Any] | None) -> list[str]:
    """What differs between two records, by name; nothing if the outputs are the same.

    On machines of one kind, outputs must be the same to the bit; else within ROUNDING.
    """
    if one is None or other is None:
        return []
    theirs, exactly = other["values"], one["machine"] == other["machine"]
    names = [name for name, value in one["values"].items() if not _alike(value, theirs.get(name), exactly)]
    return names if OUTPUTS in names else []


def _sample(values: list[Any]) -> Tensor:
    """Evenly spaced numbers (n,) of each of the `values` that is a tensor or a NumPy array."""
    found = []
    for value in values:
        if getattr(getattr(value, "dtype", None), "kind", "-") in "biufc":
            value = torch.as_tensor(value.astype(complex if value.dtype.kind == "c" else float))
        if isinstance(value, Tensor) and value.layout is torch.strided and not value.is_quantized:
            flat = value.detach().flatten()
            at = torch.linspace(0, max(len(flat) - 1, 0), min(len(flat), SAMPLED)).long().to(flat.device)
            found.append(real(flat[at]).flatten().double().cpu())
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.double)


def _alike(one: Tensor, other: Tensor | None, exactly: bool) -> bool:
    if exactly or other is None or one.shape != other.shape:
        return same(one, other)
    finite = one[one.isfinite()]
    largest = float(finite.abs().max()) if len(finite) else 0.0
    return bool(torch.allclose(one, other, rtol=0, atol=ROUNDING * largest, equal_nan=True))


def sizes_of_shares(totals: set[int], config: Config, world: World) -> list[int]:
    """The numbers of examples that a forward pass can get in training, on any rank in any step; the largest first.

    Parameters:
        totals: how many examples all ranks have together in a step.
    """
    ranks = range(world.size)
    sizes = {size for total in totals for rank in ranks for size in passes_of(total, rank, config, world)}
    return sorted(sizes, reverse=True)


def passes_of(total: int, rank: int, config: Config, world: World) -> list[int]:
    """How many examples each forward pass of a rank gets, in a step of `total` examples."""
    share = len(share_of(range(total), rank, world.size))
    passes = min(config.settings.accumulate, share)
    return [len(share_of(range(share), number, passes)) for number in range(passes)]


def even(network: nn.Module, totals: set[int], config: Config, world: World) -> bool:
    """Whether ranks may call each other within a pass: in each step, all have equal numbers of passes, of equal sizes.

    With SyncBatchNorm, the sizes may differ.
    """
    sizes_count = not any(isinstance(each, nn.SyncBatchNorm) for each in network.modules())
    for total in totals:
        passes = [passes_of(total, rank, config, world) for rank in range(world.size)]
        if any(each != passes[0] if sizes_count else len(each) != len(passes[0]) for each in passes):
            return False
    return True


class Apart(TorchDispatchMode):
    """If not `together`, raises CustomError with `reason` when code inside calls other ranks by torch.distributed.

    Code that first runs inside is never compiled by torch.compile in this process.
    """

    def __init__(self, together: bool, reason: str) -> None:
        super().__init__()
        self.together, self.reason = together, reason

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not self.together and func.namespace in ("c10d", "_c10d_functional", "_c10d_functional_autograd"):
            raise CustomError(f"torch.distributed.{func._opname.rstrip('_')} {self.reason}")
        return func(*args, **(kwargs or {}))


@contextmanager
def _refusing(config: Config, when: str, inputs: Tensor, targets: Tensor) -> Iterator[None]:
    """Raises SetupError for each error that the user's network raises inside."""
    try:
        yield
    except torch.OutOfMemoryError:  # says nothing about the data
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, CustomError) else raised(error)
        if (when, len(inputs)) == ("in training", 1):
            reason += (
                "; an epoch has a share of one example: choose another --global-batch-size or --accumulate"
            )
        raise SetupError(
            f"--network {config.network} does not take the data, inputs of shape {tuple(inputs.shape)} and targets of "
            f"shape {tuple(targets.shape)}, {when}: {reason}"
        ) from error


def _ensure_one_each(objective: Objective, found: Any, count: int, what: str) -> None:
    """Raises CustomError unless `found` has one number for each of `count` examples."""
    if not isinstance(found, Tensor) or found.shape != (count,):
        there = tuple(found.shape) if isinstance(found, Tensor) else f"a {type(found).__name__}"
        fix = "" if objective.has_own_loss else "; give the network a loss(outputs, targets)"
        raise CustomError(
            f"loss and metric have to give one number for each example; for {count} examples the {what} is {there}{fix}"
        )


def _ensure_classes(train: Examples, test: Examples, classes: int) -> None:
    """Raises CustomError for class numbers in memory that cross-entropy refuses: not from 0 to `classes` - 1."""
    for which, part in (("train on", train), ("test on", test)):
        known = part.targets[part.targets != IGNORED] if isinstance(part, Tensors) else torch.zeros(0)
        if len(known) and not 0 <= int(known.min()) <= int(known.max()) < classes:
            raise CustomError(
                f"targets to {which} go from {int(known.min())} to {int(known.max())}, and the network has outputs "
                f"for the classes 0 to {classes - 1}"
            )
