"""Your own network and data: `--network package.module:Class` and `--data package.module:function`.

A network is an `nn.Module`. `Class` is called with the keyword arguments that its constructor names, among `shape` (of
one input) and `classes` (their number: one more than the largest target in memory, else `len(part.classes)`, else 0).
It may have, besides `forward`:

    loss(outputs, targets) -> (n,)      the loss of each example; without it, cross-entropy of logits (n, classes)
    metric(outputs, targets) -> (n,)    what is averaged and printed as accuracy, finite numbers, more is better;
                                        without it, hits of the largest logit
    summary() -> str                    text that rank 0 prints after training, such as a sample
    random = False                      says that training draws no random numbers (no dropout); saves a little time

`function` is called with the keyword arguments among `folder` (a pathlib.Path, the data directory) and `seed` (int)
that it names, in every process, and returns two parts, to train on and to test on. Each is one of

    (inputs, targets)       two tensors in memory, one example in each row
    a map-style data set    `len(part)` and `part[number] -> (input, target)`; read as it is needed
    an iterable data set    `len(part)` examples make an epoch; `iter(part)` yields (input, target), the same ones in
                            the same order in every process. `part.set_epoch(epoch)`, if there is one, is called
                            first. For what does not fit memory and has no numbers.

torch.utils.data's Dataset and IterableDataset are such. Inputs reach `forward` as they are, with one dimension more for
the examples. Every replica has to get the same data, and each trains on its share of every step.

A map-style data set may draw random numbers, to augment its pictures for example, with torch on the processor, NumPy or
Python's `random`: for each share these begin anew from seed, epoch, place in the epoch and rank, so that a resumed run
draws the same. A stream is read by every process, and from its beginning by a resumed one. So it brings a generator of
its own, which `__iter__` seeds by the epoch that `set_epoch` has told.
"""

from __future__ import annotations

import importlib
import inspect
import random
import re
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional

REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
FINGERPRINT = 500  # examples that the ranks compare


class CustomError(Exception):
    """The user's network or data cannot be used; the message says what is missing or wrong."""


@runtime_checkable
class MapStyle(Protocol):
    """A data set whose examples have numbers from 0."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> tuple[Any, Any]: ...


def load(reference: str, option: str) -> Any:
    """The object that `package.module:name` refers to. Raises CustomError."""
    module, _, name = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise CustomError(
            f"{option} {reference}: {error}; put its folder on PYTHONPATH or install it into the image"
        ) from error
    except AttributeError as error:
        raise CustomError(f"{option} {reference}: {error}") from error


def call(target: Callable[..., Any], **offered: Any) -> Any:
    """Call `target` with those of the offered keyword arguments that it names."""
    parameters = inspect.signature(target).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    names = {parameter.name for parameter in parameters}
    return target(**{name: value for name, value in offered.items() if takes_all or name in names})


@dataclass(frozen=True)
class Objective:
    """What a network is trained for and measured by: its own loss and metric, or those of a classifier."""

    network: nn.Module
    label_smoothing: float = 0.0  # of cross-entropy; a network's own loss does without

    @property
    def has_own_loss(self) -> bool:
        """Whether the network brings its loss."""
        return hasattr(self.network, "loss")

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Losses to train on, shape (n,)."""
        if isinstance(outputs, Tensor) and outputs.is_floating_point():
            outputs = outputs.float()
        if self.has_own_loss:
            return self.network.loss(outputs, targets).float()
        return functional.cross_entropy(
            outputs, targets, reduction="none", label_smoothing=self.label_smoothing
        )

    def measures(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Metric and loss of each example, shape (n,) each, without label smoothing."""
        if hasattr(self.network, "metric"):
            metric = self.network.metric(outputs, targets)
        else:
            metric = outputs.argmax(1) == targets
        return metric, Objective(self.network).loss(outputs, targets)

    def classifies(self, targets: Tensor) -> bool:
        """Whether `targets` (n,) are class numbers and the largest output is the network's answer."""
        whole = targets.dim() == 1 and targets.dtype in (torch.uint8, torch.int32, torch.int64)
        return whole and not hasattr(self.network, "metric")


class Share(NamedTuple):
    """One rank's examples of one step, inputs (n, ...) and targets (n, ...), and how many all ranks have together."""

    inputs: Tensor
    targets: Tensor
    total: int


class Examples(ABC):
    """One part of a data set, to train on or to test on."""

    device = torch.device("cpu")

    @abstractmethod
    def __len__(self) -> int:
        """Examples of an epoch."""

    @abstractmethod
    def shares(self, epoch: int, seed: int, start: int, batch: int, rank: int, size: int) -> Iterator[Share]:
        """This rank's part of every step of an epoch, beginning `start` examples into it.

        Parameters:
            batch: examples of a step on all ranks together.
            size: ranks.
        """

    @abstractmethod
    def batches(self, batch: int, rank: int, size: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Every `size`th batch of `batch` examples, in order: its number, inputs (n, ...) and targets (n, ...)."""

    @abstractmethod
    def fingerprint(self) -> str:
        """The same for the same examples; it need not see all of them."""

    @abstractmethod
    def first(self) -> tuple[Tensor, Tensor]:
        """Inputs (2, ...) and targets (2, ...) of the first two examples."""

    def input(self, number: int) -> Tensor | None:
        """The input of one example as it is stored; None of examples that cannot be asked for by number."""
        return None

    def to(self, device: torch.device) -> Examples:
        self.device = device
        return self


def unchanged(inputs: Tensor) -> Tensor:
    """`inputs`: what needs no preparation."""
    return inputs


@dataclass
class Tensors(Examples):
    """Inputs (n, ...) and targets (n, ...) in memory; `prepare` makes a batch of inputs into what `forward` takes."""

    inputs: Tensor
    targets: Tensor
    prepare: Callable[[Tensor], Tensor] = unchanged

    def __len__(self) -> int:
        return len(self.targets)

    def to(self, device: torch.device) -> Tensors:
        return Tensors(self.inputs.to(device), self.targets.to(device), self.prepare)

    def shares(self, epoch: int, seed: int, start: int, batch: int, rank: int, size: int) -> Iterator[Share]:
        order = permutation(len(self), seed).to(self.inputs.device)
        for at in range(start, len(self), batch):
            chosen = order[at : at + batch]
            mine = chosen.tensor_split(size)[rank]
            yield Share(self.prepare(self.inputs[mine]), self.targets[mine], len(chosen))

    def batches(self, batch: int, rank: int, size: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        for number in range(rank, -(-len(self) // batch), size):
            part = slice(number * batch, (number + 1) * batch)
            yield number, self.prepare(self.inputs[part]), self.targets[part]

    def fingerprint(self) -> str:
        some = torch.linspace(0, len(self) - 1, min(FINGERPRINT, len(self))).long().to(self.inputs.device)
        return f"{tuple(self.inputs.shape)} {checksum(self.inputs[some])} {checksum(self.targets)}"

    def first(self) -> tuple[Tensor, Tensor]:
        return self.prepare(self.inputs[:2]), self.targets[:2]

    def input(self, number: int) -> Tensor:
        return self.inputs[number]


@dataclass
class Mapped(Examples):
    """A map-style data set, read example by example.

    What it draws at random is the same for the same `key`: of a share, of a batch to test on, of the first examples.
    """

    source: MapStyle
    numbers: Tensor = field(init=False)

    def __len__(self) -> int:
        return len(self.source)

    def read(self, numbers: Iterable[int], *key: int) -> tuple[Tensor, Tensor]:
        with drawn_by(*key):
            return stack([self.source[number] for number in numbers] or [self.source[0]], self.device)

    def shares(self, epoch: int, seed: int, start: int, batch: int, rank: int, size: int) -> Iterator[Share]:
        order = permutation(len(self), seed)
        for at in range(start, len(self), batch):
            chosen = order[at : at + batch]
            mine = chosen.tensor_split(size)[rank].tolist()
            inputs, targets = self.read(mine, seed, at, rank)
            yield Share(inputs[: len(mine)], targets[: len(mine)], len(chosen))

    def batches(self, batch: int, rank: int, size: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        for number in range(rank, -(-len(self) // batch), size):
            yield number, *self.read(range(number * batch, min((number + 1) * batch, len(self))), number)

    def fingerprint(self) -> str:
        inputs, targets = self.read({0, len(self) // 2, len(self) - 1})
        return f"{len(self)} {checksum(inputs)} {checksum(targets)}"

    def first(self) -> tuple[Tensor, Tensor]:
        return self.read(range(min(2, len(self))))

    def input(self, number: int) -> Tensor:
        return torch.as_tensor(self.source[number][0])


@dataclass
class Streamed(Examples):
    """An iterable data set: every rank reads all of it and keeps its share."""

    source: Iterable[tuple[Any, Any]]

    def __len__(self) -> int:
        assert isinstance(self.source, Sized)
        return len(self.source)

    def stream(self, epoch: int) -> Iterator[tuple[Any, Any]]:
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(epoch)
        return islice(iter(self.source), len(self))

    def shares(self, epoch: int, seed: int, start: int, batch: int, rank: int, size: int) -> Iterator[Share]:
        stream = islice(self.stream(epoch), start, None)
        for at in range(start, len(self), batch):
            step = self.taken(stream, at, batch)
            inputs, targets = stack(step, self.device)
            mine = torch.arange(len(step)).tensor_split(size)[rank].to(self.device)
            yield Share(inputs[mine], targets[mine], len(step))

    def batches(self, batch: int, rank: int, size: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        stream = self.stream(0)
        for number, at in enumerate(range(0, len(self), batch)):
            step = self.taken(stream, at, batch)
            if number % size == rank:
                yield number, *stack(step, self.device)

    def taken(self, stream: Iterator[tuple[Any, Any]], at: int, batch: int) -> list[tuple[Any, Any]]:
        """The next examples of an epoch, of which there have been `at`. Raises CustomError where it ends too early."""
        wanted = min(batch, len(self) - at)
        rows = list(islice(stream, wanted))
        if len(rows) < wanted:
            raise CustomError(f"--data: an epoch ended after {at + len(rows)} examples of {len(self)}")
        return rows

    def fingerprint(self) -> str:
        inputs, targets = self.first()
        return f"{len(self)} {checksum(inputs)} {checksum(targets)}"

    def first(self) -> tuple[Tensor, Tensor]:
        return stack(self.taken(self.stream(0), 0, 2), self.device)


def examples(part: Any, which: str) -> Examples:
    """The Examples of what the user's function returned for one part. Raises CustomError."""
    if isinstance(part, tuple | list) and len(part) == 2 and all(isinstance(one, Tensor) for one in part):
        if len(part[0]) != len(part[1]):
            raise CustomError(f"--data: {len(part[0])} inputs to {which}, but {len(part[1])} targets")
        found: Examples = Tensors(part[0], part[1])
    elif not isinstance(part, Sized):
        raise CustomError(f"--data: the part to {which} has no length; say how many examples make an epoch")
    elif isinstance(part, MapStyle) and not is_iterable(part):
        found = Mapped(part)
    elif isinstance(part, Iterable):
        found = Streamed(part)
    else:
        raise CustomError(f"--data: the part to {which} is {type(part).__name__}; see trainer/custom.py")
    if not len(found):
        raise CustomError(f"--data: there is no example to {which}")
    return found


def is_iterable(part: object) -> bool:
    """Whether it is torch's IterableDataset, which inherits a `__getitem__` that does nothing."""
    return any(kind.__name__ == "IterableDataset" for kind in type(part).__mro__)


def parts(reference: str, **offered: Any) -> tuple[Examples, Examples]:
    """The two parts of the user's data. Raises CustomError."""
    found = call(load(reference, "--data"), **offered)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise CustomError(f"--data {reference} has to return two parts, to train on and to test on")
    return examples(found[0], "train on"), examples(found[1], "test on")


def seed_of(*key: int) -> int:
    """A seed that depends on `key` alone."""
    mixed = 0
    for part in key:
        mixed = (mixed * 1_000_003 + part + 1) % (1 << 62)
    return mixed


@contextmanager
def drawn_by(*key: int) -> Iterator[None]:
    """Inside, what torch draws on the processor, NumPy and Python depends on `key` alone; then all go on as before."""
    seed, numpy = seed_of(*key), sys.modules.get("numpy")
    with torch.random.fork_rng(devices=()):
        pythons, numpys = random.getstate(), numpy and numpy.random.get_state()
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        if numpy:
            numpy.random.seed(seed % (1 << 32))
        try:
            yield
        finally:
            random.setstate(pythons)
            if numpy:
                numpy.random.set_state(numpys)


def permutation(count: int, seed: int) -> Tensor:
    """The numbers 0 to `count` - 1 in an order that only `seed` decides, as a tensor (count,)."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def stack(rows: list[tuple[Any, Any]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of one input and one target each as two tensors (n, ...) on `device`."""
    inputs, targets = ([torch.as_tensor(row[side]) for row in rows] for side in (0, 1))
    return torch.stack(inputs).to(device), torch.stack(targets).to(device)


def checksum(values: Tensor) -> str:
    """CRC-32 of the bytes of `values`, as 8 hexadecimal digits."""
    return f"{zlib.crc32(values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()):08x}"
