"""The networks. Each takes float images (n, 1, 28, 28) and returns logits (n, 10).

Pooling comes before ReLU: the result is the same, and ReLU has only a quarter of the values to compute. Layers have
the names of the published systems, so that the model files of those systems load.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer import custom

MEAN, STD = (
    0.1307,
    0.3081,
)  # of MNIST's training images; the same for all data, so that a model file does not store them


class Network(nn.Module):
    """A network that a recipe trains: images (n, 1, 28, 28) to logits (n, 10)."""

    random = False  # whether a forward pass in training draws random numbers


class LeNet(Network):
    """Convolutions with 20 and 50 kernels of 5x5, then 800 -> 500 -> 10; 431,080 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(4 * 4 * 50, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        x = functional.relu(self.fc1(x.flatten(1)))
        return self.fc2(x)


class ConvNet(Network):
    """Convolutions with 32 and 64 kernels of 3x3, dropout 0.25 and 0.5, 9216 -> 128 -> 10; 1,199,882 parameters."""

    random = True

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.conv1(x))
        x = self.dropout1(functional.relu(functional.max_pool2d(self.conv2(x), 2)))
        x = self.dropout2(functional.relu(self.fc1(x.flatten(1))))
        return self.fc2(x)


class Fast(Network):
    """Convolutions with 16 kernels of 5x5 (stride 2), 24 and 64 of 3x3; one linear layer; 23,554 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 5, stride=2)
        self.conv2 = nn.Conv2d(16, 24, 3)
        self.conv3 = nn.Conv2d(24, 64, 3)
        self.fc = nn.Linear(3 * 3 * 64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.conv1(x))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        x = functional.relu(self.conv3(x))
        return self.fc(x.flatten(1))


NETWORKS: Mapping[str, type[Network]] = {"lenet": LeNet, "convnet": ConvNet, "fast": Fast}


def build(name: str, seed: int, shape: tuple[int, ...] = (1, 28, 28), classes: int = 10) -> nn.Module:
    """The network with the initial weights of this seed, the same on every rank.

    Our networks have channels last in memory, because oneDNN and cuDNN convolve fastest in this order; a user's network
    keeps its own order, on which it may depend. A user's network may ask for `shape` of one input and `classes`. Raises
    custom.CustomError.
    """
    if name in NETWORKS:
        torch.manual_seed(seed)
        return NETWORKS[name]().to(memory_format=torch.channels_last)
    network = custom.call(name, "--network", seed, shape=shape, classes=classes)
    if not isinstance(network, nn.Module) or not list(network.parameters()):
        raise custom.CustomError(f"--network {name} is no torch.nn.Module with parameters")
    if any(isinstance(each, torch.jit.ScriptModule) for each in network.modules()):
        raise custom.CustomError(f"--network {name} is made by torch.jit; give the original module")
    for parameter, value in network.named_parameters():
        if value.requires_grad and value.layout is not torch.strided:
            raise custom.CustomError(
                f"--network {name} has a sparse parameter, {parameter}; make it dense, or register it as a buffer"
            )
    return network


def matching(state: Mapping[str, Tensor]) -> str:
    """Name of the network whose parameters have these names and shapes. Raises ValueError."""
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    for name, network in NETWORKS.items():
        if {key: tuple(value.shape) for key, value in network().state_dict().items()} == shapes:
            return name
    raise ValueError(
        f"no network of ours has the parameters {shapes}; our networks are {', '.join(NETWORKS)}"
    )


def normalize(images: Tensor) -> Tensor:
    """Bytes (n, 28, 28) to floats (n, 1, 28, 28) of about mean 0 and variance 1."""
    return images.unsqueeze(1).float().sub_(255 * MEAN).mul_(1 / (255 * STD))
