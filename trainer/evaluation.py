"""Exact test metrics, over one process or many."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from trainer.datasets import Part
from trainer.distributed import World
from trainer.networks import normalize
from trainer.precision import whole_float32


@dataclass(frozen=True)
class Metrics:
    accuracy: float
    loss: float


def evaluate(network: nn.Module, test: Part, batch_size: int, world: World) -> Metrics:
    """Accuracy and mean cross-entropy of `network` on the whole of `test`, the same on every rank.

    The batches are dealt out whole, and each one's sums keep a place of their own until all are there. So the result
    does not depend, to the last digit, on how many ranks there are.
    """
    network.eval()
    starts = range(0, len(test), batch_size)
    sums = torch.zeros(len(starts), 2, dtype=torch.float64, device=test.images.device)
    for number in range(world.rank, len(starts), world.size):
        batch = slice(starts[number], starts[number] + batch_size)
        labels = test.labels[batch]
        with torch.no_grad(), whole_float32():
            logits = network(normalize(test.images[batch])).float()
        sums[number, 0] = (logits.argmax(1) == labels).sum()
        sums[number, 1] = functional.cross_entropy(logits, labels, reduction="none").double().sum()
    hits, loss = world.sum(sums).cpu().sum(0).tolist()
    return Metrics(hits / len(test), loss / len(test))
