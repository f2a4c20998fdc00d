"""The process group: who takes part, on which device, and the few exchanges that training needs."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.options import Config

T = TypeVar("T")


class SetupError(Exception):
    """The replicas cannot work together like this; the message says what to change."""


class PeerLostError(Exception):
    """Another replica has gone; what is left of the job ends, to be started again as a whole."""


@dataclass(frozen=True)
class World:
    rank: int
    size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this rank logs and saves."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Add `values` up over all ranks, in place. Raises PeerLostError."""
        if self.size > 1:
            with _peers(f"rank {self.rank} lost another replica"):
                dist.all_reduce(values)
        return values

    def wait_for_leader(self) -> None:
        """Stay until rank 0 gets here: were it lost before that, nobody would be left to train on with.

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
        with _peers(f"rank {self.rank} lost another replica"):
            dist.broadcast_object_list(outcome, src=0, device=self.device)
        value, failure = outcome[0]
        if failure is not None:
            raise failure
        return value  # type: ignore[return-value]


@contextmanager
def _peers(what: str) -> Iterator[None]:
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


def join(config: Config) -> World:
    """Meet the other ranks as the environment says (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE).

    Raises SetupError, and PeerLostError when they do not come.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    backend = config.backend or ("nccl" if _gpu_each(config) and dist.is_nccl_available() else "gloo")
    device = choose_device(config, backend)
    if backend == "mpi":
        if not dist.is_mpi_available():
            raise SetupError("this build of torch has no MPI: use --backend gloo")
        dist.init_process_group("mpi")
        if size not in (1, dist.get_world_size()):
            raise SetupError(
                f"MPI started {dist.get_world_size()} of the job's {size} ranks: start them with mpirun, "
                "or use --backend gloo"
            )
        return World(dist.get_rank(), dist.get_world_size(), device)
    rank = int(os.environ.get("RANK", "0"))
    if size > 1:
        os.environ.setdefault("USE_LIBUV", "0")  # Debian's torch is built without it
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface())
        check(backend, os.environ["GLOO_SOCKET_IFNAME"])
        with _peers(f"rank {rank} did not meet the other {size - 1}"):
            dist.init_process_group(backend, timeout=timedelta(seconds=config.timeout_s))
    return World(rank, size, device)


def check(backend: str, interfaces: str) -> None:
    """Raises SetupError for what no restart would mend."""
    if backend == "nccl" and not dist.is_nccl_available():
        raise SetupError("this build of torch has no NCCL: use --backend gloo")
    there = {name for _, name in socket.if_nameindex()}
    if missing := set(interfaces.split(",")) - there:
        raise SetupError(
            f"GLOO_SOCKET_IFNAME names {', '.join(sorted(missing))}, which this pod has not; "
            f"use one of: {', '.join(sorted(there))}"
        )


def choose_device(config: Config, backend: str) -> torch.device:
    """The device this rank computes on. Raises SetupError when nccl has not a GPU for every rank."""
    gpus = 0 if config.no_cuda else torch.cuda.device_count()
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if backend == "nccl":
        if config.no_cuda:
            raise SetupError("--backend nccl needs GPUs and --no-cuda forbids them: use --backend gloo")
        if gpus == 0:
            raise SetupError(
                "--backend nccl needs a GPU in every replica and this one has none: "
                "give the replica `nvidia.com/gpu: 1`, or use --backend gloo"
            )
        if local_rank >= gpus:
            raise SetupError(
                f"--backend nccl needs a GPU for every rank, this node has {gpus} for "
                f"{os.environ.get('LOCAL_WORLD_SIZE', '?')} ranks: start fewer ranks per node, or use --backend gloo"
            )
    if not gpus:
        return torch.device("cpu")
    device = torch.device("cuda", local_rank % gpus)
    torch.cuda.set_device(device)
    return device


def _gpu_each(config: Config) -> bool:
    local_world = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return not config.no_cuda and torch.cuda.device_count() >= local_world


def interface(routes: Path = Path("/proc/net/route")) -> str:
    """The network interface of the default route, `lo` without one.

    gloo would otherwise take the address that the host's own name resolves to, often 127.0.0.1.
    """
    for line in routes.read_text().splitlines()[1:]:
        name, destination = line.split()[:2]
        if destination == "00000000":
            return name
    return "lo"
