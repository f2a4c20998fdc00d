"""Random numbers that depend only on a key: of torch on the CPU, of NumPy and of Python. Users draw from all three."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor


def seed_of(*key: int) -> int:
    """A seed that depends only on `key`."""
    mixed = 0
    for part in key:
        mixed = (mixed * 1_000_003 + part + 1) % (1 << 62)
    return mixed


class Draws:
    """Numbers that torch on the CPU, NumPy and Python draw for one purpose; the numbers depend only on `key`."""

    def __init__(self, *key: int) -> None:
        self.seed = seed_of(*key)
        self.states: tuple[Any, Any, Any] | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside, draw the next of these numbers; outside, all generators continue as before."""
        before = states()
        if self.states is None:
            seed_all(self.seed)
        else:
            take(self.states)
        try:
            yield
        finally:
            self.states = states()
            take(before)


def drawn_by(*key: int) -> AbstractContextManager[None]:
    """Inside, the numbers of torch on the CPU, NumPy and Python depend only on `key`. Then all continue as before."""
    return Draws(*key)()


def seed_all(seed: int) -> None:
    """Seed the generators of torch on the CPU, of NumPy and of Python."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % (1 << 32))


def states() -> tuple[Any, Any, Any]:
    """The states of the generators."""
    numpy = sys.modules.get("numpy")
    return torch.get_rng_state(), random.getstate(), numpy and numpy.random.get_state()


def take(states: tuple[Any, Any, Any]) -> None:
    """Restore the states of the generators."""
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    if states[2]:
        sys.modules["numpy"].random.set_state(states[2])


def permutation(count: int, seed: int) -> Tensor:
    """The numbers 0 to `count` - 1 in an order that only `seed` decides, as a tensor (count,)."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))
