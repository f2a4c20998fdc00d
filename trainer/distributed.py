"""The process group: the few exchanges between ranks that training needs, and the errors that they raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")


class SetupError(Exception):
    """The replicas cannot work together like this; the message says what to change."""


class PeerLostError(Exception):
    """Another replica has gone; what is left of the job ends, to be started again as a whole."""


@dataclass(frozen=True)
class World:
    """All ranks of the job, seen from one of them. `threads` are those of each rank."""

    rank: int
    size: int
    device: torch.device
    threads: tuple[int, ...] = (1,)

    @property
    def leads(self) -> bool:
        """Whether this rank logs and saves."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Add `values` up over all ranks, in place. Raises PeerLostError."""
        if self.size > 1:
            with peer_errors(f"rank {self.rank} lost another replica"):
                dist.all_reduce(values)
        return values

    def wait_for_leader(self) -> None:
        """Stay until rank 0 gets here: if rank 0 died earlier, no replica could resume.

        Raises PeerLostError, but not on rank 0.
        """
        try:
            self.all(True)
        except PeerLostError:
            if not self.leads:
                raise

    def all(self, here: bool) -> bool:
        """Whether `here` is true on every rank. Raises PeerLostError."""
        return int(self.sum(torch.tensor([int(here)], device=self.device)).item()) == self.size

    def gather(self, value: T) -> list[T]:
        """`value` of every rank, on every rank. Raises PeerLostError."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        with peer_errors(f"rank {self.rank} lost another replica"):
            dist.all_gather_object(found, value)
        return found

    def from_rank_zero(self, compute: Callable[[], T]) -> T:
        """What `compute` returns on rank 0, on every rank; what it raises there is raised everywhere.

        Raises PeerLostError.
        """
        if self.size == 1:
            return compute()
        outcome: list[tuple[T | None, Exception | None]] = [(None, None)]
        if self.leads:
            try:
                outcome = [(compute(), None)]
            except Exception as error:
                outcome = [(None, error)]
        with peer_errors(f"rank {self.rank} lost another replica"):
            dist.broadcast_object_list(outcome, src=0, device=self.device)
        value, failure = outcome[0]
        if failure is not None:
            raise failure
        return value  # type: ignore[return-value]


def agree(facts: list[dict[str, Any]], what: str, fix: str = "start all of them alike") -> None:
    """Raises SetupError when the facts of some rank differ from those of rank 0; it names rank, key and both values."""
    differing = [
        f"{key}: {first} on rank 0, {other.get(key)} on rank {rank}"
        for rank, other in enumerate(facts)
        for key in sorted({*facts[0], *other})
        if (first := facts[0].get(key)) != other.get(key)
    ]
    if differing:
        raise SetupError(f"the replicas differ in {what} ({'; '.join(differing)}); {fix}")


@contextmanager
def peer_errors(what: str) -> Iterator[None]:
    """Raises PeerLostError, beginning with `what`, for the errors that torch raises when a replica is not there.

    They have no type of their own; those with one are something else.
    """
    try:
        yield
    except (torch.OutOfMemoryError, NotImplementedError):
        raise
    except RuntimeError as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise PeerLostError(
            f"{what} ({reason}); see that replica's log; restarted, the job goes on from its checkpoint"
        ) from error
