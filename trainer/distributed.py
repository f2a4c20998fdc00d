"""The process group: the exchanges between ranks that training needs, and their errors."""

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
    """The replicas cannot train together; the message says what to change."""


class PeerLostError(Exception):
    """Another replica has ended; the rest of the job ends, too, and the whole job is started again."""


@dataclass(frozen=True)
class World:
    """All ranks of the job, as one rank sees them. `threads`: the number of threads of each rank."""

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
        """Wait until rank 0 calls this, too: if rank 0 died after other ranks had ended, no replica could resume.

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
        """The result of `compute` on rank 0, for every rank; an error of `compute` there is raised on every rank.

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


def agree(
    facts: list[dict[str, Any]], what: str, fix: str = "start all replicas with the same options"
) -> None:
    """Raises SetupError, with rank, key and both values, if the facts of a rank differ from those of rank 0."""
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
    """Raises PeerLostError, beginning with `what`, for torch's errors about a missing replica.

    These errors are plain RuntimeErrors; errors of another type are passed on.
    """
    try:
        yield
    except (torch.OutOfMemoryError, NotImplementedError):
        raise
    except RuntimeError as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise PeerLostError(
            f"{what} ({reason}); see the other replicas' logs; after a restart, the job continues from its checkpoint"
        ) from error
