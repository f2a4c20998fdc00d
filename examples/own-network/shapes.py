"""A small ResNet with BatchNorm that learns to classify colour pictures of shapes.

python3 -m trainer --network shapes:ResNet --data shapes:pictures --epochs 3
"""

from itertools import pairwise

import torch
from einops import reduce
from torch import nn
from torch.nn import functional

CLASSES = ("disc", "square", "cross", "ring")
SIZE = 32  # pixels


def pictures(seed: int):
    """Two parts, to train on and to test on: pictures (n, 3, 32, 32) and their class numbers (n,)."""
    return draw(4000, seed), draw(1000, seed + 1)


def draw(count: int, seed: int):
    """Bright shapes of any colour, size and place on a dark ground of another colour, with noise."""
    random = torch.Generator().manual_seed(seed)
    kinds = torch.randint(len(CLASSES), (count,), generator=random)
    axis = torch.arange(SIZE).float()
    radius = 5 + 6 * torch.rand(count, 1, 1, generator=random)
    centre = 11 + 10 * torch.rand(count, 2, 1, 1, generator=random)
    x, y = (axis[None, None, :] - centre[:, 0]).abs(), (axis[None, :, None] - centre[:, 1]).abs()
    far, wide, near = (x**2 + y**2).sqrt(), torch.maximum(x, y), torch.minimum(x, y)
    masks = (
        far < radius,
        wide < radius * 0.9,
        (wide < radius) & (near < radius / 3),
        (far < radius) & (far > radius / 2),
    )
    mask = torch.stack(masks)[kinds, torch.arange(count)][:, None].float()
    ink, ground = torch.rand(2, count, 3, 1, 1, generator=random) / 2
    noise = 0.1 * torch.randn(count, 3, SIZE, SIZE, generator=random)
    return ground + (0.5 + ink - ground) * mask + noise, kinds


class Block(nn.Module):
    """Two convolutions and a shortcut; half as wide and high if `stride` is 2."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inner, outer, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outer) for _ in range(2))
        self.shortcut = nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, images):
        inside = self.norms[1](self.second(functional.relu(self.norms[0](self.first(images)))))
        return functional.relu(inside + self.shortcut(images))


class ResNet(nn.Module):
    """Three blocks, the mean over the picture, one linear layer. `shape`: of one input."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        widths = (shape[0], 16, 32, 64)
        self.blocks = nn.Sequential(*(Block(a, b, 2) for a, b in pairwise(widths)))
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, images):
        return self.head(reduce(self.blocks(images), "n c h w -> n c", "mean"))
