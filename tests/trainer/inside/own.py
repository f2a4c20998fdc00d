"""Networks and data as a user would bring them: `--network tests.inside.own:Normed --data tests.inside.own:files`."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

Part = tuple[Tensor, Tensor]


def pictures(count: int, shape: tuple[int, ...], classes: int, seed: int) -> Part:
    """Noise with a bright stripe whose place is the class."""
    numbers = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=numbers)
    images = 0.1 * torch.randn(count, *shape, generator=numbers)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[:, 2 * label : 2 * label + 2] += 1
    return images, labels


def tiny() -> tuple[Part, Part]:
    return pictures(96, (1, 28, 28), 10, 1), pictures(32, (1, 28, 28), 10, 2)


def colours() -> tuple[Part, Part]:
    return pictures(96, (3, 20, 24), 5, 1), pictures(30, (3, 20, 24), 5, 2)


class Files(Dataset[tuple[Tensor, int]]):
    classes = ("a", "b", "c", "d", "e")

    def __init__(self, part: Part) -> None:
        self.images, self.labels = part

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return self.images[number], int(self.labels[number])


class Stream(IterableDataset[tuple[Tensor, int]]):
    """The same pictures in an order of its own."""

    classes = Files.classes

    def __init__(self, part: Part, length: int | None = None) -> None:
        self.images, self.labels = part
        self.length, self.epoch = length, 0

    def __len__(self) -> int:
        return self.length or len(self.labels)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        for number in torch.randperm(
            len(self.labels), generator=torch.Generator().manual_seed(self.epoch)
        ).tolist():
            yield self.images[number], int(self.labels[number])


class Jittered(Files):
    """Augmented: `draw` gives the brightness of each picture, anew each time that it is read."""

    def __init__(self, part: Part, draw: Callable[[], float]) -> None:
        super().__init__(part)
        self.draw = draw

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(number)
        return image + self.draw(), label


def jittered(draw: Callable[[], float]) -> tuple[Jittered, Jittered]:
    train, test = tiny()
    return Jittered(train, draw), Jittered(test, draw)


def jittered_by_torch() -> tuple[Jittered, Jittered]:
    return jittered(lambda: float(torch.rand(())))


def jittered_by_numpy() -> tuple[Jittered, Jittered]:
    return jittered(numpy.random.random)


def jittered_by_python() -> tuple[Jittered, Jittered]:
    return jittered(random.random)


def files() -> tuple[Files, Files]:
    train, test = colours()
    return Files(train), Files(test)


def streams() -> tuple[Stream, Stream]:
    train, test = colours()
    return Stream(train), Stream(test)


def short_stream() -> tuple[Stream, Part]:
    train, test = colours()
    return Stream(train, length=200), test


def short_test_stream() -> tuple[Part, Stream]:
    train, test = colours()
    return train, Stream(test, length=31)


def without_length() -> tuple[Iterator[Tensor], Part]:
    return iter([]), colours()[1]


def one_part() -> Tensor:
    return torch.zeros(3)


def by_rank() -> tuple[Part, Part]:
    """Other data on each replica, as from a file that one node has not updated."""
    return pictures(96, (1, 28, 28), 10, int(os.environ["RANK"])), tiny()[1]


def described(folder: Path, seed: int) -> tuple[Part, Part]:
    print(f"called with {folder} and {seed}")
    return tiny()


def split(seed: int) -> tuple[Part, Part]:
    """Parts that the seed chooses of the same pictures."""
    images, labels = pictures(128, (1, 28, 28), 10, 1)
    order = torch.randperm(128, generator=torch.Generator().manual_seed(seed))
    (train, test) = order[:96], order[96:]
    return (images[train], labels[train]), (images[test], labels[test])


class Normed(nn.Module):
    """Two convolutions with batch normalisation, of any shape and number of classes."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(shape[0], 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(10),
            nn.Flatten(),
            nn.Dropout(0.1),
            nn.Linear(800, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


NUMBERS = 64


def numbers() -> tuple[Part, Part]:
    return (torch.arange(NUMBERS), torch.zeros(NUMBERS)), (torch.arange(NUMBERS), torch.zeros(NUMBERS))


class Tally(nn.Module):
    """Counts: with plain SGD of lr 1, each epoch takes 1 / (global batch) from the weight of every example."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Embedding(NUMBERS, 1)
        nn.init.zeros_(self.weights.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.weights(x)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs[:, 0]

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -outputs[:, 0]

    def summary(self) -> str:
        return f"least {self.weights.weight.min().item()}, most {self.weights.weight.max().item()}"


class Fading(Tally):
    """Its metric falls with each epoch, so that the first one is the best."""

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs[:, 0]


class Undefined(Tally):
    """From the second epoch on, its metric is the number METRIC."""

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.where(outputs[:, 0] < -0.2, float(os.environ["METRIC"]), -outputs[:, 0])


class NoModule:
    pass


class WrongLoss(Normed):
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, targets)


class SlowTally(Tally):
    """Takes its time until there is a file HURRY, so that pods can come and go meanwhile."""

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(0 if Path(os.environ["HURRY"]).exists() else 0.3)
        return super().forward(x)
