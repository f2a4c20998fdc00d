"""Networks and data of the kinds that other people bring. test_conformance.py says what becomes of each."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_gather_tensor
from torch.nn import functional
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    Sampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)

from tests.inside.own import NUMBERS, Files, Part, Stream, colours, files, numbers, pictures, tiny

Shape = tuple[int, ...]


class Linear(nn.Module):
    """One layer, of any shape and number of classes."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(math.prod(shape), classes)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x.flatten(1))


# Buffers


class AssignedMean(Linear):
    """A running mean that is another tensor after each step."""

    mean: Tensor

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean()
        return self.layer(x.flatten(1) - self.mean)


class HiddenMean(AssignedMean):
    """The same, and a model file leaves it out."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        del self.mean
        self.register_buffer("mean", torch.zeros(()), persistent=False)


class Turning(Linear):
    """A complex buffer."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.register_buffer("phase", torch.ones((), dtype=torch.cfloat))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.phase.mul_(torch.polar(torch.tensor(1.0), torch.tensor(0.3)))
        return super().forward(x)


class Counter(Linear):
    """Counts in whole numbers that float32 does not hold; evaluation moves it, too."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.register_buffer("seen", torch.tensor((1 << 25) + 1))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 3
        return super().forward(x)


class Queue(Linear):
    """Keeps the last inputs' numbers, as contrastive learning does."""

    last: Tensor

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.register_buffer("last", torch.zeros(4, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.last = torch.cat([(1000 * x.flatten(1).sum(1)).long(), self.last])[:4]
        return super().forward(x)


class Largest(Linear):
    """Begins with an infinite buffer."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.register_buffer("top", torch.tensor(float("-inf")))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.top.copy_(torch.maximum(self.top, x.max()))
        return super().forward(x)


class Unset(Linear):
    """A buffer that nothing has set yet."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.register_buffer("later", torch.full((3,), float("nan")))


class Spread(Linear):
    """Buffers that are one number in many places."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.register_buffer("mean", torch.tensor(0.1).expand(shape[0], 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - self.mean)


class Total(Linear):
    """A double buffer beside float parameters."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.register_buffer("total", torch.zeros((), dtype=torch.double))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.total += x.double().sum()
        return super().forward(x)


class Observed(Linear):
    """torch's own observer of a range."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        from torch.ao.quantization import MinMaxObserver

        self.observer = MinMaxObserver()

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.observer(x)
        return super().forward(x)


class Graph(nn.Module):
    """A sparse matrix as a buffer, here of neighbours among the inputs."""

    layout = torch.sparse_coo
    neighbours: Tensor

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(math.prod(shape), classes)
        neighbours = torch.eye(math.prod(shape)).roll(1, 0)
        self.register_buffer("neighbours", neighbours.to_sparse(layout=self.layout))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer((self.neighbours @ x.flatten(1).T).T)


class GraphOfRows(Graph):
    layout = torch.sparse_csr


class MovedGraph(Graph):
    """Its numbers follow the inputs, and evaluation moves them, too."""

    def forward(self, x: Tensor) -> Tensor:
        self.neighbours = self.neighbours * (0.99 + 0.01 * x.mean().item())
        return super().forward(x)


class MovedGraphOfRows(MovedGraph):
    layout = torch.sparse_csr


class LastLoss(Linear):
    """A buffer that falls from a large number to a small one."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.register_buffer("last", torch.tensor(1e8))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.last.fill_(0.123)
        return super().forward(x)


def quantized() -> nn.Module:
    """Prepared for training that knows of the quantization."""
    from torch.ao import quantization

    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10))
    network.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    return quantization.prepare_qat(network.train())


# Parameters


class Double(Linear):
    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.double())


class Bfloat16(Linear):
    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.bfloat16()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.bfloat16())


class Complex(nn.Module):
    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.05 * torch.randn(math.prod(shape), classes, dtype=torch.cfloat))

    def forward(self, x: Tensor) -> Tensor:
        return (x.flatten(1).to(torch.cfloat) @ self.weight).abs()


class SparseWeight(Linear):
    """A sparse parameter, which torch's optimizers do not take either."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.mixing = nn.Parameter(torch.eye(math.prod(shape)).to_sparse())

    def forward(self, x: Tensor) -> Tensor:
        return self.layer((self.mixing @ x.flatten(1).T).T)


def scripted() -> Any:
    return torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)))


class Reordered(Linear):
    """A parameter of whole numbers, which nothing trains."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.places = nn.Parameter(torch.arange(math.prod(shape)).flip(0), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1)[:, self.places])


class Turns(nn.Module):
    """Two heads that take turns, and a layer that nothing uses."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(math.prod(shape), classes) for _ in range(2))
        self.unused, self.turn = nn.Linear(3, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if not self.training:
            return self.heads[0](x) + self.heads[1](x)
        self.turn += 1
        return self.heads[self.turn % 2](x)


class TiedData(nn.Module):
    """Two layers whose weights share their memory, and not the parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(784, 784), nn.Linear(784, 784), nn.Linear(784, 10)
        self.second.weight.data = self.first.weight.data

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x.flatten(1))))))


class Adversarial(Linear):
    """Looks for a worse input first, and forgets the gradients of that."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        x = x.detach().requires_grad_(True)
        super().forward(x).square().sum().backward()
        worse = (x + 0.01 * x.grad.sign()).detach()
        self.zero_grad()
        return super().forward(worse)


class SparseWords(nn.Module):
    """An embedding whose gradients are sparse."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(50, 8, sparse=True), nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.table(x).flatten(1))


class Renormed(nn.Module):
    """An embedding that forward itself changes."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = nn.EmbeddingBag(50, 8, max_norm=0.5), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.table(x))


class ActNorm(Linear):
    """Scale and shift begin with what the first batch asks for."""

    begun: Tensor

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.shift, self.scale = nn.Parameter(torch.zeros(())), nn.Parameter(torch.ones(()))
        self.register_buffer("begun", torch.tensor(False))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and not self.begun:
            self.shift.data.copy_(-x.mean())
            self.scale.data.copy_(1 / x.std())
            self.begun.fill_(True)
        return super().forward((x + self.shift) * self.scale)


class Ordered(nn.Module):
    """Two layers of one size; with EDITED in another order, or wider."""

    def __init__(self) -> None:
        super().__init__()
        edited = os.environ.get("EDITED")
        width = 40 if edited == "wider" else 32
        for name in ("second", "first") if edited == "order" else ("first", "second"):
            setattr(self, name, nn.Linear(784 if name == "first" else width, width))
        self.last = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x.flatten(1))))))


# Layers that look at the order in memory, or at the number of dimensions


class Tutorial(nn.Module):
    """Flattens by `view`, as PyTorch's first example does."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 5), nn.Conv2d(4, 8, 5)
        self.drop, self.layer = nn.Dropout2d(), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(functional.max_pool2d(self.first(x), 2))
        x = functional.relu(functional.max_pool2d(self.drop(self.second(x)), 2))
        return functional.log_softmax(self.layer(x.view(-1, 128)), dim=1)


class Standardised(nn.Module):
    """Weight standardisation looks at the weights by `view`."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.convolution, self.layer = nn.Conv2d(shape[0], 8, 3), nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.convolution.weight
        flat = weight.view(len(weight), -1)
        flat = (flat - flat.mean(1, keepdim=True)) / (flat.std(1, keepdim=True) + 1e-5)
        x = functional.conv2d(x, flat.view(weight.shape), self.convolution.bias)
        return self.layer(functional.relu(x).mean((2, 3)))


class Shuffled(nn.Module):
    """ShuffleNet's exchange of channels, by `view`."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(shape[0], 8, 3), nn.Conv2d(8, 8, 3, groups=8)
        self.layer = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        count, channels, height, width = x.shape
        x = x.view(count, 2, channels // 2, height, width).transpose(1, 2).reshape(x.shape)
        return self.layer(self.second(x).mean((2, 3)))


class Deep(nn.Module):
    """A convolution over three dimensions."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv3d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten())
        self.last = nn.Linear(4, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layers(x))


class DeepNormed(Deep):
    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self.layers = nn.Sequential(
            nn.ConvTranspose3d(1, 4, 3), nn.BatchNorm3d(4), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten()
        )


def lazy() -> nn.Module:
    return nn.Sequential(
        nn.LazyConv2d(4, 5, padding=2), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.LazyLinear(10)
    )


def normed() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10))


def synchronised() -> nn.Module:
    return nn.SyncBatchNorm.convert_sync_batchnorm(normed())


def transformer(classes: int) -> nn.Module:
    """torchvision's vit, small, on pictures of the one size that it takes."""
    from torchvision.models import VisionTransformer

    sizes = {
        "image_size": 24,
        "patch_size": 8,
        "num_layers": 2,
        "num_heads": 2,
        "hidden_dim": 16,
        "mlp_dim": 32,
    }
    return VisionTransformer(**sizes, num_classes=classes)


def compiled(backend: str = "eager") -> nn.Module:
    """By torch.compile."""
    torch.manual_seed(0)
    return torch.compile(nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.LogSoftmax(1)), backend=backend)


def compiled_to_machine_code() -> nn.Module:
    return compiled("inductor")


class WithOptions(nn.Module):
    """A constructor that takes any keyword argument, and passes all on to one that takes none."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.layer = nn.Linear(784, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1))


instance = Linear((784,), 10)

# Random numbers


class Dropped(Linear):
    """Leaves a branch out by Python's random numbers."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.branch = nn.Linear(math.prod(shape), classes)

    def draw(self) -> float:
        return random.random()

    def forward(self, x: Tensor) -> Tensor:
        found = super().forward(x)
        return found if self.training and self.draw() < 0.5 else found + self.branch(x.flatten(1))


class DroppedByNumpy(Dropped):
    def draw(self) -> float:
        return float(numpy.random.rand())


class BegunByNumpy(Linear):
    """First weights, and a matrix in a plain attribute, of NumPy's random numbers."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.mixing = torch.from_numpy(0.1 * numpy.random.randn(math.prod(shape), math.prod(shape))).float()
        with torch.no_grad():
            self.layer.weight.copy_(torch.from_numpy(0.03 * numpy.random.randn(*self.layer.weight.shape)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.cos(x.flatten(1) @ self.mixing))


class FeaturesByItself(Linear):
    """Random features of a generator that nobody seeds, in an array of NumPy's."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.waves = 0.1 * numpy.random.default_rng().standard_normal((math.prod(shape), math.prod(shape)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.cos(x.flatten(1) @ torch.from_numpy(self.waves).float()))


class ForgottenMean(Linear):
    """A running mean that is no buffer."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.mean = torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean()
        return self.layer(x.flatten(1) - self.mean)


class Noisy(Linear):
    """Draws in each pass from a generator that nobody seeds."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__(shape, classes)
        self.generator = numpy.random.default_rng()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + self.generator.random(dtype=numpy.float32))


class Edited(Linear):
    """With EDITED another function of the same parameters."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.tanh(x) if os.environ.get("EDITED") else x)


# Outputs and losses


class Auxiliary(Linear):
    """A tuple in training."""

    def forward(self, x: Tensor) -> Any:
        return (super().forward(x), super().forward(x)) if self.training else super().forward(x)


class Mapping(Linear):
    def forward(self, x: Tensor) -> Any:
        return {"logits": super().forward(x)}


class Asserting(Linear):
    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[-1] == 32, "Wrong size"
        return super().forward(x)


class OneTuple(Linear):
    def forward(self, x: Tensor) -> Any:
        return (super().forward(x),)


class Needing(Linear):
    """A constructor that asks for what nobody has."""

    def __init__(self, hidden: int) -> None:
        super().__init__((hidden,), 10)


class Regression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[:, 0] - targets).square()


class OneLogit(Regression):
    """Yes or no by one number; the targets are class numbers."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(outputs[:, 0], targets.float(), reduction="none")


class WithoutLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[:, 0]


class WrongMean(Regression):
    """A mean over the examples, one number for each of two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().mean(0)


# Data


def volumes() -> tuple[Part, Part]:
    generator = torch.Generator().manual_seed(1)

    def part(count: int) -> Part:
        targets = torch.randint(3, (count,), generator=generator)
        return torch.randn(count, 1, 4, 8, 8, generator=generator) + targets.view(-1, 1, 1, 1, 1), targets

    return part(96), part(32)


def words() -> tuple[Part, Part]:
    generator = torch.Generator().manual_seed(1)

    def part(count: int) -> Part:
        found = torch.randint(50, (count, 4), generator=generator)
        return found, found.sum(1) % 5

    return part(96), part(32)


def values() -> tuple[Part, Part]:
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(8, generator=generator)

    def part(count: int) -> Part:
        inputs = torch.randn(count, 8, generator=generator)
        return inputs, inputs @ weights

    return part(96), part(32)


def pairs() -> tuple[Part, Part]:
    (x, y), (u, v) = values()
    return (x, torch.stack([y, -y], 1)), (u, torch.stack([v, -v], 1))


def yes_or_no() -> tuple[Part, Part]:
    (x, y), (u, v) = values()
    return (x, (y > 0).long()), (u, (v > 0).long())


def of_33() -> tuple[Part, Part]:
    return pictures(33, (1, 28, 28), 10, 1), tiny()[1]


def of_35() -> tuple[Part, Part]:
    return pictures(35, (1, 28, 28), 10, 1), tiny()[1]


def of_90() -> tuple[Part, Part]:
    """The last step of an epoch is shorter."""
    return pictures(90, (1, 28, 28), 10, 1), tiny()[1]


def squares() -> tuple[Part, Part]:
    return pictures(96, (3, 24, 24), 5, 1), pictures(32, (3, 24, 24), 5, 2)


def arrays() -> Any:
    return tuple((inputs.numpy(), targets.numpy()) for inputs, targets in tiny())


def mixed() -> Any:
    return tuple((inputs, targets.numpy()) for inputs, targets in tiny())


def lists() -> Any:
    return tuple((inputs.tolist(), targets.tolist()) for inputs, targets in tiny())


def unknown_labels() -> Any:
    train, (inputs, targets) = tiny()
    return train, (inputs, targets + 1)


def missing_labels() -> Any:
    (inputs, targets), test = tiny()
    return (inputs, torch.where(targets == 0, -1, targets)), test


class Rows(Files):
    def __getitem__(self, number: int) -> Any:
        return {"pixels": self.images[number], "label": int(self.labels[number])}


class NamedInputs(Files):
    def __getitem__(self, number: int) -> Any:
        return {"pixels": self.images[number]}, int(self.labels[number])


class SparseRows(Files):
    def __getitem__(self, number: int) -> Any:
        return self.images[number].to_sparse(), int(self.labels[number])


class Pictures(Files):
    def __getitem__(self, number: int) -> Any:
        from torchvision.transforms.functional import to_pil_image

        return to_pil_image(self.images[number].clamp(0, 1)), int(self.labels[number])


class Lengths(Files):
    """Each example as long as its number says."""

    def __getitem__(self, number: int) -> Any:
        return torch.ones(1 + number % 5), int(self.labels[number])


class CountedClasses(Files):
    classes = 5


class Generating(Files):
    """Draws from a generator of its own."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.generator = numpy.random.default_rng()

    def __getitem__(self, number: int) -> Any:
        return self.images[number] + self.generator.random(dtype=numpy.float32), int(self.labels[number])


def of_kind(kind: type[Files]) -> tuple[Files, Files]:
    train, test = colours()
    return kind(train), kind(test)


def rows() -> Any:
    return of_kind(Rows)


def named_inputs() -> Any:
    return of_kind(NamedInputs)


def sparse_rows() -> Any:
    return of_kind(SparseRows)


def sparse() -> Any:
    return tuple((inputs.to_sparse(), targets) for inputs, targets in tiny())


def pil() -> Any:
    return of_kind(Pictures)


def lengths() -> Any:
    return of_kind(Lengths)


def counted_classes() -> Any:
    return of_kind(CountedClasses)


def generating() -> Any:
    return of_kind(Generating)


def subsets() -> Any:
    return random_split(Files(pictures(126, (3, 20, 24), 5, 1)), [96, 30], torch.Generator().manual_seed(0))


def unseeded_split() -> Any:
    return random_split(Files(pictures(126, (3, 20, 24), 5, 1)), [96, 30])


def unseeded_arrays() -> Any:
    images, labels = pictures(128, (1, 28, 28), 10, 1)
    order = numpy.random.permutation(128)
    return (images[order[:96]], labels[order[:96]]), (images[order[96:]], labels[order[96:]])


def another_vocabulary() -> Any:
    """Each start numbers the words in another way, as a set of words does."""
    (x, y), test = words()
    return ((x + int(os.environ.get("START", "0"))) % 50, y), test


def padded(rows: list[Any]) -> Any:
    inputs, targets = zip(*rows, strict=True)
    return functional.pad(nn.utils.rnn.pad_sequence(inputs, batch_first=True), (0, 5))[:, :5], torch.tensor(
        targets
    )


class Padded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def loaders(workers: int = 0, **options: Any) -> Any:
    train, test = tiny()
    return (
        DataLoader(TensorDataset(*train), batch_size=5, shuffle=True, num_workers=workers, **options),
        DataLoader(TensorDataset(*test), batch_size=5, num_workers=workers),
    )


def loaders_with_workers() -> Any:
    return loaders(workers=2)


def loaders_that_drop() -> Any:
    return loaders(drop_last=True)


def loaders_in_order() -> Any:
    train, test = tiny()
    return DataLoader(TensorDataset(*train), batch_size=5), DataLoader(TensorDataset(*test), batch_size=5)


def loaders_that_pad() -> Any:
    return tuple(DataLoader(part, batch_size=4, shuffle=True, collate_fn=padded) for part in of_kind(Lengths))


def loaders_of_batches() -> Any:
    train, test = tiny()
    batches = [list(range(start, start + 16)) for start in range(0, 96, 16)]
    return DataLoader(TensorDataset(*train), batch_sampler=batches), test


def loaders_without_batches() -> Any:
    train, test = tiny()
    return DataLoader(TensorDataset(*train), batch_size=None), test


class Told(Sampler[int]):
    """Shuffles by the epoch that it is told, and says nothing of its length."""

    def __init__(self, count: int) -> None:
        self.count, self.epoch = count, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(random.Random(self.epoch).sample(range(self.count), self.count))


class ByItself(Told):
    """Each replica would have an order of its own."""

    def __iter__(self) -> Iterator[int]:
        return iter(numpy.random.default_rng().permutation(self.count))


class Endless(Told):
    def __iter__(self) -> Iterator[int]:
        while True:
            yield from super().__iter__()


class Fewer(Told):
    """Another number of examples in each epoch."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count - self.epoch))


class Named(Told):
    """For a data set whose examples have names."""

    def __iter__(self) -> Iterator[Any]:
        return map("{}.png".format, range(self.count))


SAMPLERS: dict[str, Callable[[], dict[str, Any]]] = {
    "in_order": lambda: {},
    "shuffle": lambda: {"shuffle": True},
    "generator": lambda: {"shuffle": True, "generator": torch.Generator().manual_seed(5)},
    "subset": lambda: {"sampler": SubsetRandomSampler(list(range(3, 99)))},
    "weighted": lambda: {"sampler": WeightedRandomSampler([1.0 + n % 3 for n in range(99)], 110)},
    "told": lambda: {"sampler": Told(99)},
    "batches": lambda: {"batch_sampler": BatchSampler(SubsetRandomSampler(range(60)), 16, True)},
    "by_itself": lambda: {"sampler": ByItself(99)},
    "endless": lambda: {"sampler": Endless(99)},
    "fewer": lambda: {"sampler": Fewer(99)},
    "named": lambda: {"sampler": Named(99)},
    "split_by_itself": lambda: {
        "sampler": SubsetRandomSampler(numpy.random.default_rng().permutation(99)[:80])
    },
}


def sampled(name: str, drop_last: bool = False) -> Any:
    """99 examples in a DataLoader with one of SAMPLERS, and a part to test on."""
    options = SAMPLERS[name]()
    if "batch_sampler" not in options:
        options |= {"batch_size": 16, "drop_last": drop_last}
    return DataLoader(TensorDataset(*pictures(99, (1, 28, 28), 10, 1)), **options), tiny()[1]


subset = partial(sampled, "subset")
subset_that_drops = partial(sampled, "subset", drop_last=True)
weighted = partial(sampled, "weighted", drop_last=True)
told_epochs = partial(sampled, "told", drop_last=True)
batched = partial(sampled, "batches")
by_itself = partial(sampled, "by_itself")
endless = partial(sampled, "endless")
fewer = partial(sampled, "fewer")
named = partial(sampled, "named")
split_by_itself = partial(sampled, "split_by_itself")


def streams_that_drop() -> Any:
    train, test = pictures(99, (3, 20, 24), 5, 1), colours()[1]
    return DataLoader(Stream(train), batch_size=16, drop_last=True), test


class Shuffling(IterableDataset[Any]):
    """Draws its order anew in each epoch, as the reading goes on."""

    def __len__(self) -> int:
        return int(NUMBERS)

    def shuffle(self, order: list[int]) -> None:
        random.shuffle(order)

    def __iter__(self) -> Iterator[Any]:
        yield torch.tensor(0), 0.0
        order = list(range(1, NUMBERS))
        self.shuffle(order)
        for number in order:
            yield torch.tensor(number), 0.0


class ShufflingByTorch(Shuffling):
    def shuffle(self, order: list[int]) -> None:
        order[:] = [order[at] for at in torch.randperm(len(order)).tolist()]


class ShufflingByNumpy(Shuffling):
    def shuffle(self, order: list[int]) -> None:
        numpy.random.shuffle(order)


class ShufflingByItself(Shuffling):
    def shuffle(self, order: list[int]) -> None:
        numpy.random.default_rng().shuffle(order)


def shuffling() -> Any:
    return Shuffling(), numbers()[1]


def shuffling_by_torch() -> Any:
    return ShufflingByTorch(), numbers()[1]


def shuffling_by_numpy() -> Any:
    return ShufflingByNumpy(), numbers()[1]


def shuffling_by_itself() -> Any:
    return ShufflingByItself(), numbers()[1]


# Processes


def square(number: int) -> int:
    return number * number


def pooled() -> Any:
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(square, range(8))
    return tiny()


def futures() -> Any:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        list(pool.map(square, range(8)))
    return tiny()


def preloaded() -> Any:
    """Reads all of it with workers before it trains."""

    def read(part: Part) -> Part:
        batches = list(DataLoader(Files(part), batch_size=16, num_workers=2))
        return torch.cat([inputs for inputs, _ in batches]), torch.cat([targets for _, targets in batches])

    train, test = colours()
    return read(train), read(test)


class PoolStream(Stream):
    """Decodes with a pool while it trains."""

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        import multiprocessing

        with multiprocessing.Pool(2) as pool:
            pool.map(square, range(8))
        yield from super().__iter__()


def pool_stream() -> Any:
    train, test = colours()
    return PoolStream(train), test


def looked_at_first() -> Any:
    """Breaks a loader with workers off after its first batch, as for a mean."""
    train, test = colours()
    looking = iter(DataLoader(Files(train), batch_size=4, num_workers=2))
    next(looking)
    del looking
    return Subset(Files(train), range(96)), Files(test)


def ended() -> Any:
    raise SystemExit("there is no train.csv")


class Gone(Files):
    """One example, which nobody looks at before the training, is a file that cannot be read."""

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        if number == 51:
            raise PermissionError(13, "Permission denied", os.fsdecode(b"/data/caf\xe9.png"))
        return self.images[number], int(self.labels[number])


def gone() -> Any:
    train, test = colours()
    return Gone(train), Files(test)


def gone_for_workers() -> Any:
    train, test = gone()
    return DataLoader(train, batch_size=4, num_workers=2), test


def gone_from_a_stream() -> Any:
    """Breaks off behind what is looked at before the training."""
    train, test = colours()
    return BrokenStream(train), test


class BrokenStream(Stream):
    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        for number, example in enumerate(super().__iter__()):
            if number == 40:
                raise PermissionError(13, "Permission denied", "/data/40.png")
            yield example


# What calls other ranks.


class Gathering(Linear):
    """Its loss looks at the outputs of all ranks."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        everybody = [torch.empty_like(outputs) for _ in range(dist.get_world_size())]
        dist.all_gather(everybody, outputs.detach())
        return nn.functional.cross_entropy(outputs, targets, reduction="none") + 0 * everybody[0].sum()


class Reducing(Linear):
    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        hits = (outputs.argmax(1) == targets).float()
        dist.all_reduce(hits.mean())
        return hits


class GatheringInTraining(Gathering):
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if self.training:
            return super().loss(outputs, targets)
        return nn.functional.cross_entropy(outputs, targets, reduction="none")


class FunctionalGathering(Linear):
    def forward(self, x: Tensor) -> Tensor:
        outputs = super().forward(x)
        everybody = all_gather_tensor(outputs.detach(), 0, dist.group.WORLD)
        return outputs + 0 * everybody.sum()


class NumpyFeatures(nn.Module):
    """Random Fourier features in a plain attribute."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.waves = torch.from_numpy(0.1 * numpy.random.randn(math.prod(shape), 64)).float()
        self.last = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.cos(x.flatten(1) @ self.waves))


def named_by_bytes() -> Any:
    """Classes that bear the names of folders."""
    train, test = files()
    for part in (train, test):
        part.classes = tuple(os.fsdecode(b"caf\xe9 %d" % number) for number in range(5))
    return train, test
