"""The trainer with one more trick that it does not have: `lever.py NAME OPTIONS…`, for a benchmark of what each gives.

NAME is `none` or `factors`. Each computes what the trainer computes, for `lenet` with equal shares.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainer import __main__, networks
from trainer.distributed import World


class Factors:
    """What `fc1` saw, (n, 800), and the gradient of what it gave, (n, 500): their product is its weights' gradient."""

    seen: Tensor
    given_back: Tensor
    place: slice
    flag: int  # where the exchange says that there is such a gradient


class WithoutProduct(torch.autograd.Function):  # type: ignore[misc]
    """A linear layer whose backward pass keeps the factors of its weights' gradient instead of multiplying them."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        context.save_for_backward(x, weight)
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        x, weight = context.saved_tensors
        Factors.seen, Factors.given_back = x, gradient
        return gradient @ weight, None, gradient.sum(0)


def sum_of_factors(world: World, values: Tensor) -> Tensor:
    """As World.sum of a step: all but the weights' gradient, and its factors, in one exchange; the rest is computed."""
    if world.size == 1 or values.dim() != 1 or values.numel() < Factors.place.stop:
        return PLAIN_SUM(world, values)
    start, stop = Factors.place.start, Factors.place.stop
    pieces = [values[:start], values[stop:], Factors.seen.flatten(), Factors.given_back.flatten()]
    own = torch.cat(pieces)
    everybody = [torch.empty_like(own) for _ in range(world.size)]
    dist.all_gather(everybody, own)
    sizes = [piece.numel() for piece in pieces]
    parts = [each.split(sizes) for each in everybody]
    torch.add(parts[0][0], parts[1][0], out=values[:start])
    torch.add(parts[0][1], parts[1][1], out=values[stop:])
    for other in parts[2:]:
        values[:start] += other[0]
        values[stop:] += other[1]
    seen = torch.cat([each[2].view(Factors.seen.shape) for each in parts])
    given_back = torch.cat([each[3].view(Factors.given_back.shape) for each in parts])
    torch.mm(given_back.t(), seen, out=values[start:stop].view(Factors.given_back.shape[1], -1))
    values[Factors.flag] = 1
    return values


PLAIN_SUM = World.sum


def install_factors() -> None:
    """Before the trainer starts; the exchange packs gradients in the order of the parameters, then a flag for each."""

    def forward(network: networks.LeNet, x: Tensor) -> Tensor:
        x = nn.functional.relu(nn.functional.max_pool2d(network.conv1(x), 2))
        x = nn.functional.relu(nn.functional.max_pool2d(network.conv2(x), 2))
        layer = network.fc1
        function = WithoutProduct.apply if network.training else nn.functional.linear
        return network.fc2(nn.functional.relu(function(x.flatten(1), layer.weight, layer.bias)))

    start = 0
    for number, (name, parameter) in enumerate(networks.LeNet().named_parameters()):
        if name == "fc1.weight":
            Factors.place, Factors.flag = slice(start, start + parameter.numel()), number
        start += parameter.numel()
    Factors.flag += start
    networks.LeNet.forward = forward  # type: ignore[assignment, method-assign]
    World.sum = sum_of_factors  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    lever = sys.argv.pop(1)
    {"none": lambda: None, "factors": install_factors}[lever]()
    __main__.run()
