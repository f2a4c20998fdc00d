"""The two parts of a data set, to train on and to test on: shares of each step, and batches to test on.

trainer/custom.py says what a user's function may return. Here the returned parts become Examples, or are refused.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import index, length_hint
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import BatchSampler

from trainer.custom import CustomError, call, raised
from trainer.draws import Draws, drawn_by, permutation
from trainer.exchange import raw

LONGEST = 100  # a sampler that gives this many times the number of examples counts as endless
FINGERPRINT, FINGERPRINT_READ = (
    500,
    16,
)  # how many examples the ranks compare: of data in memory, of other data


@runtime_checkable
class MapStyle(Protocol):
    """A data set whose examples have numbers from 0."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> tuple[Any, Any]: ...


def stacked(rows: list[Any]) -> tuple[Tensor, Tensor]:
    """Rows of (input, target), stacked. Raises CustomError."""
    for row in rows[:1]:
        if not isinstance(row, tuple | list) or len(row) != 2:
            raise CustomError(
                f"has the type {type(row).__name__}, and is not a pair of input and target; return such pairs"
            )
        for side, value in zip(("input", "target"), row, strict=True):
            if isinstance(value, dict | str) or (not hasattr(value, "__len__") and not is_number(value)):
                hint = "; make it a tensor, for example with torchvision.transforms.ToTensor()"
                raise CustomError(f"is a pair whose {side} has the type {type(value).__name__}{hint}")
    inputs, targets = ([torch.as_tensor(row[side]) for row in rows] for side in (0, 1))
    return torch.stack(inputs), torch.stack(targets)


def is_number(value: object) -> bool:
    """Whether `value` is a number of Python or NumPy, or a tensor with one number."""
    return isinstance(value, bool | int | float | complex | Tensor) or hasattr(value, "dtype")


Collate = Callable[[list[Any]], Any]
T = TypeVar("T")


class Share(NamedTuple):
    """One rank's examples of one step, inputs (n, ...) and targets (n, ...), and how many all ranks have together."""

    inputs: Tensor
    targets: Tensor
    total: int


class Examples(ABC):
    """One part of a data set, to train on or to test on."""

    device = torch.device("cpu")
    drop_last = False  # whether an incomplete last step is left out

    @abstractmethod
    def __len__(self) -> int:
        """The number of examples in an epoch."""

    @abstractmethod
    def shares(self, epoch: int, seed: int, start: int, batch: int, rank: int, size: int) -> Iterator[Share]:
        """This rank's part of every step of an epoch, after the epoch's first `start` examples.

        Parameters:
            batch: examples of a step on all ranks together.
            size: the number of ranks.
        """

    def totals(self, batch: int) -> set[int]:
        """How many examples a step has over all ranks: usually, and in an epoch's last step. Raises CustomError."""
        if not self.drop_last:
            return {min(batch, len(self)), len(self) % batch} - {0}
        if len(self) < batch:
            raise CustomError(
                f"--data: with drop_last, {len(self)} examples are fewer than the {batch} of a step; use smaller steps"
            )
        return {batch}

    @abstractmethod
    def batches(self, batch: int, rank: int, size: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Every `size`th batch of `batch` examples, in order: its number, inputs (n, ...) and targets (n, ...)."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A text that is the same for the same examples. It may depend on only some of them."""

    @abstractmethod
    def first(self, count: int = 2) -> tuple[Tensor, Tensor]:
        """Inputs (n, ...) and targets (n, ...) of the first examples."""

    def input(self, number: int) -> Tensor | None:
        """The stored input of one example; None if examples have no numbers."""
        return None

    def to(self, device: torch.device) -> Examples:
        self.device = device
        return self


def unchanged(inputs: Tensor) -> Tensor:
    """`inputs` unchanged: they need no preparation."""
    return inputs


@dataclass
class Tensors(Examples):
    """Inputs (n, ...) and targets (n, ...) in memory; `prepare` converts a batch of inputs for `forward`."""

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

    def first(self, count: int = 2) -> tuple[Tensor, Tensor]:
        return self.prepare(self.inputs[:count]), self.targets[:count]

    def input(self, number: int) -> Tensor:
        return self.inputs[number]


Key = tuple[tuple[int, ...], tuple[int, ...]]  # numbers of examples, and the key of their random numbers


@dataclass
class Mapped(Examples):
    """A map-style data set, read example by example.

    It draws the same random numbers for the same `key`. A share, a test batch and the first examples have a key each.

    Parameters:
        collate: makes rows of (input, target) into inputs (n, ...) and targets (n, ...).
        loader: the DataLoader of the data set; its workers are used.
        sampler: the loader's sampler. None: each example once, in the trainer's order.
    """

    source: MapStyle
    which: str = "train on"
    collate: Collate = stacked
    loader: Any = None
    sampler: Any = None
    drop_last: bool = False
    draws_unseeded: bool = field(init=False, default=False)  # set after a comparison

    def __post_init__(self) -> None:
        self.known: Sequence[int] = range(len(self.source))
        if self.sampler is not None:
            self.known = self.sampled(0, 0)
            if self.known != self.sampled(0, 0):
                raise CustomError(
                    f"--data: the sampler of the part to {self.which} gives other examples each time that it is asked: "
                    "replicas would train on some examples twice and on others never; draw with torch's, NumPy's or "
                    "Python's functions, or let the order depend on the epoch that set_epoch gets"
                )

    def __len__(self) -> int:
        return len(self.known)

    def __getitem__(self, key: Key) -> tuple[Tensor, Tensor]:
        """The examples with these numbers, in CPU memory; for no numbers, tensors (0, ...) of an example's shape."""
        numbers, drawn = key
        with drawn_by(*drawn), told(self.which):
            rows = [self.source[number] for number in numbers or (0,)]
        inputs, targets = taken_together(rows, self.collate, self.which)
        return inputs[: len(numbers)], targets[: len(numbers)]

    def read(self, keys: Sequence[Key]) -> Iterator[tuple[Tensor, Tensor]]:
        """The examples of each key, read by the loader's workers if it has any."""
        found: Iterable[tuple[Tensor, Tensor]] = map(self.__getitem__, keys)
        if self.loader is not None and self.loader.num_workers:
            found = type(self.loader)(
                self,
                batch_size=None,
                sampler=keys,
                num_workers=self.loader.num_workers,
                worker_init_fn=self.loader.worker_init_fn,
                multiprocessing_context=self.loader.multiprocessing_context,
            )
        with told_by_a_worker():
            for inputs, targets in found:
                yield inputs.to(self.device), targets.to(self.device)

    def order(self, epoch: int, seed: int) -> list[int]:
        """The numbers of an epoch's examples, in the order of the sampler if there is one. Raises CustomError."""
        if self.sampler is None:
            return list(permutation(len(self), seed).tolist())
        if len(found := self.sampled(epoch, seed)) != len(self):
            raise CustomError(
                f"--data: the sampler of the part to {self.which} gave {len(self)} examples, and {len(found)} in epoch "
                f"{epoch}; give the same number in each epoch"
            )
        return found

    def sampled(self, epoch: int, seed: int) -> list[int]:
        """The sampler's numbers in an epoch; its random numbers depend on `seed`. Raises CustomError."""
        most = LONGEST * max(len(self.source), length_hint(self.sampler))
        with drawn_by(seed), told(self.which):
            if hasattr(self.sampler, "set_epoch"):
                self.sampler.set_epoch(epoch)
            if generator := getattr(self.sampler, "generator", None):
                generator.manual_seed(seed)
            found = [index(number) for number in islice(self.sampler, most)]
        if len(found) == most:
            raise CustomError(
                f"--data: the sampler of the part to {self.which} does not end; let it give the examples of one epoch"
            )
        return found

    def shares(self, epoch: int, seed: int, start: int, batch: int, rank: int, size: int) -> Iterator[Share]:
        order = self.order(epoch, seed)
        steps = [order[at : at + batch] for at in range(start, len(order), batch)]
        steps = [step for step in steps if len(step) in self.totals(batch)]
        keys = [
            (tuple(share_of(step, rank, size)), (seed, start + number * batch, rank))
            for number, step in enumerate(steps)
        ]
        for (inputs, targets), step in zip(self.read(keys), steps, strict=True):
            yield Share(inputs, targets, len(step))

    def batches(self, batch: int, rank: int, size: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        numbers = range(rank, -(-len(self) // batch), size)
        keys = [(tuple(self.known[number * batch : (number + 1) * batch]), (number,)) for number in numbers]
        for number, (inputs, targets) in zip(numbers, self.read(keys), strict=True):
            yield number, inputs, targets

    def fingerprint(self) -> str:
        some = {int(place) for place in torch.linspace(0, len(self) - 1, FINGERPRINT_READ)}
        key = (tuple(self.known[place] for place in sorted(some)), ())
        (inputs, targets), (again, _) = self[key], self[key]
        self.draws_unseeded = not alike(inputs, again)
        seen = "" if self.draws_unseeded else f"{checksum(inputs)} "
        order = "" if self.sampler is None else f" {checksum(torch.tensor(self.known))}"
        return f"{len(self)} {seen}{checksum(targets)}{order}"

    def first(self, count: int = 2) -> tuple[Tensor, Tensor]:
        inputs, targets = self[(tuple(self.known[:count]), ())]
        return inputs.to(self.device), targets.to(self.device)

    def input(self, number: int) -> Tensor:
        return torch.as_tensor(self.source[self.known[number]][0])


@dataclass
class Streamed(Examples):
    """An iterable data set: every rank reads all examples and keeps its own share."""

    source: Iterable[tuple[Any, Any]]
    which: str = "train on"
    collate: Collate = stacked
    drop_last: bool = False

    def __len__(self) -> int:
        assert isinstance(self.source, Sized)
        return len(self.source)

    def steps(self, epoch: int, batch: int, start: int = 0) -> Iterator[list[tuple[Any, Any]]]:
        """The rows of each step of an epoch, after the epoch's first `start` examples.

        The stream's random numbers depend only on the epoch. Each step continues their sequence, and numbers that the
        training draws do not change the sequence. Raises CustomError if the stream ends too early.
        """
        draws = Draws(epoch)
        with draws(), told(self.which):
            if hasattr(self.source, "set_epoch"):
                self.source.set_epoch(epoch)
            stream = iter(self.source)
        for at in (*range(0, start, batch), *range(start, len(self), batch)):
            with draws(), told(self.which):
                wanted = min(batch, len(self) - at, start - at if at < start else len(self))
                rows = list(islice(stream, wanted))
            if len(rows) < wanted:
                raise CustomError(
                    f"--data: an epoch ended after {at + len(rows)} examples of {len(self)}; yield all of them"
                )
            if at >= start:
                yield rows

    def stack(self, rows: list[tuple[Any, Any]]) -> tuple[Tensor, Tensor]:
        inputs, targets = taken_together(rows, self.collate, self.which)
        return inputs.to(self.device), targets.to(self.device)

    def shares(self, epoch: int, seed: int, start: int, batch: int, rank: int, size: int) -> Iterator[Share]:
        for rows in self.steps(epoch, batch, start):
            if len(rows) not in self.totals(batch):
                continue
            mine = share_of(rows, rank, size)
            inputs, targets = self.stack(list(mine) or rows[:1])
            yield Share(inputs[: len(mine)], targets[: len(mine)], len(rows))

    def batches(self, batch: int, rank: int, size: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        for number, rows in enumerate(self.steps(0, batch)):
            if number % size == rank:
                yield number, *self.stack(rows)

    def fingerprint(self) -> str:
        (inputs, targets), (again, _) = self.first(FINGERPRINT_READ), self.first(FINGERPRINT_READ)
        if not alike(inputs, again):
            raise CustomError(
                f"--data: the part to {self.which} gives other examples each time that it is read: replicas would "
                "train on some examples twice and on others never; let __iter__ seed its generator by set_epoch's epoch"
            )
        return f"{len(self)} {checksum(inputs)} {checksum(targets)}"

    def first(self, count: int = 2) -> tuple[Tensor, Tensor]:
        return self.stack(next(self.steps(0, min(count, len(self)))))


def examples(part: Any, which: str) -> Examples:
    """The Examples of what the user's function returned for one part. Raises CustomError."""
    collate: Collate = stacked
    loader, sampler, drop_last = None, None, False
    if is_a("DataLoader", part):
        loader, part, collate = part, *of_loader(part, which)
        sampler, drop_last = loader.batch_sampler.sampler, loader.batch_sampler.drop_last
    if isinstance(part, tuple | list) and len(part) == 2 and loader is None:
        inputs, targets = (in_memory(values, which) for values in part)
        if len(inputs) != len(targets):
            raise CustomError(f"--data: {len(inputs)} inputs to {which}, but {len(targets)} targets")
        found: Examples = Tensors(inputs, targets)
    elif not isinstance(part, Sized):
        raise CustomError(f"--data: the part to {which} has no length; say how many examples make an epoch")
    elif isinstance(part, MapStyle) and not is_a("IterableDataset", part):
        found = Mapped(part, which, collate, loader, sampler, drop_last)
    elif isinstance(part, Iterable):
        found = Streamed(part, which, collate, drop_last)
    else:
        raise CustomError(
            f"--data: the part to {which} has the type {type(part).__name__}; trainer/custom.py lists the types"
        )
    if not len(found):
        raise CustomError(f"--data: there is no example to {which}")
    return found


@contextmanager
def told(which: str) -> Iterator[None]:
    """Raises CustomError for each error that the user's data set raises inside, for example about a file."""
    try:
        yield
    except CustomError:
        raise
    except Exception as error:
        raise CustomError(f"--data: an example to {which} cannot be read: {raised(error)}") from error


@contextmanager
def told_by_a_worker() -> Iterator[None]:
    """Raises the CustomError of a worker process without the traceback that torch puts before the message."""
    try:
        yield
    except CustomError as error:
        *before, sentence = str(error).strip().splitlines()
        if not before:
            raise
        raise CustomError(sentence.partition("CustomError: ")[2] or sentence) from error


def is_a(name: str, part: object) -> bool:
    """Whether `part` has the class of torch.utils.data with this name.

    `__getitem__` does not tell: an IterableDataset has it, too.
    """
    return any(kind.__name__ == name for kind in type(part).__mro__)


def of_loader(loader: Any, which: str) -> tuple[Any, Collate]:
    """Data set and collate function of a DataLoader. Raises CustomError for settings that would be lost."""
    batches = loader.batch_sampler
    refused = {
        "no batch_size": batches is None,
        "its own batch_sampler": batches is not None and type(batches) is not BatchSampler,
        "a sampler that splits the examples over the ranks, as the trainer itself does": hasattr(
            getattr(batches, "sampler", None), "num_replicas"
        ),
    }
    for what, there in refused.items():
        if there:
            raise CustomError(
                f"--data: the DataLoader of the part to {which} has {what}; give it batch_size, and sampler or shuffle"
            )
    return loader.dataset, stacked if getattr(
        loader.collate_fn, "__name__", ""
    ) == "default_collate" else loader.collate_fn


def in_memory(values: Any, which: str) -> Tensor:
    """A tensor, a NumPy array or nested lists as a tensor. Raises CustomError."""
    try:
        found = torch.as_tensor(values)
    except Exception as error:
        raise CustomError(
            f"--data: the {type(values).__name__} to {which} cannot become a tensor: {raised(error)}"
        ) from error
    if not found.dim() or found.layout is not torch.strided:
        raise CustomError(
            f"--data: the part to {which} has no rows that can be indexed: {found.layout}, {found.shape}"
        )
    return found


def classes_of(part: Examples) -> int:
    """The number of classes, by targets in memory or by the classes that the data set names; 0 if unknown."""
    if isinstance(part, Tensors):
        whole = (
            part.targets.dim() == 1 and not part.targets.is_floating_point() and not part.targets.is_complex()
        )
        return int(part.targets.max()) + 1 if whole else 0
    named = told_classes(part)
    return len(named) if isinstance(named, Sized) else int(named)


def told_classes(part: Examples) -> Any:
    """What the user's data set says about its classes: their names (as in torchvision) or number; else ()."""
    source = getattr(part, "source", None)
    while source is not None and not hasattr(source, "classes"):
        source = getattr(source, "dataset", None)  # of a Subset
    return getattr(source, "classes", ())


def parts(reference: str, seed: int, **offered: Any) -> tuple[Examples, Examples]:
    """The two parts of the user's data. Raises CustomError."""
    found = call(reference, "--data", seed, **offered, seed=seed)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise CustomError(f"--data {reference} has to return two parts, to train on and to test on")
    return examples(found[0], "train on"), examples(found[1], "test on")


def share_of(rows: Sequence[T], rank: int, size: int) -> Sequence[T]:
    """One rank's part of a step, as torch.tensor_split cuts it: the first ranks may have one more example."""
    least, more = divmod(len(rows), size)
    start = rank * least + min(rank, more)
    return rows[start : start + least + (rank < more)]


def taken_together(rows: list[tuple[Any, Any]], collate: Collate, which: str) -> tuple[Tensor, Tensor]:
    """Rows of one input and one target each, as two tensors (n, ...). Raises CustomError."""
    try:
        found = collate(rows)
    except CustomError as error:
        raise CustomError(f"--data: an example to {which} {error}") from error
    except Exception as error:  # the user's collate_fn may raise anything
        raise CustomError(
            f"--data: examples to {which} do not go together into one batch: {raised(error)}"
        ) from error
    whole = (
        isinstance(found, tuple | list)
        and len(found) == 2
        and all(isinstance(each, Tensor) for each in found)
    )
    if not whole or any(len(each) != len(rows) for each in found):
        raise CustomError(
            f"--data: collate_fn of the part to {which} has to return two tensors, inputs (n, ...) and targets "
            "(n, ...), for n examples"
        )
    if any(each.layout is not torch.strided for each in found):
        raise CustomError(f"--data: examples to {which} are sparse tensors; make them dense, by to_dense()")
    return found[0], found[1]


def alike(one: Tensor, other: Tensor) -> bool:
    """Whether both hold the same bytes."""
    return one.shape == other.shape and checksum(one) == checksum(other)


def checksum(values: Tensor) -> str:
    """CRC-32 of the bytes of `values`, as 8 hexadecimal digits."""
    return f"{zlib.crc32(raw(values)):08x}"
