"""The process group: who takes part, on which device, and the few exchanges that training needs.

All replicas agree before anything is trained: they tell each other their configuration and what they have, and one that
differs from rank 0 is refused by all, with its rank and the key.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.options import Config

T = TypeVar("T")
CONNECT_S = (
    60  # to connect to replicas that have all said that they are there; who dies meanwhile does not come back
)


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
            with _peers(f"rank {self.rank} lost another replica"):
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
        with _peers(f"rank {self.rank} lost another replica"):
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
        with _peers(f"rank {self.rank} lost another replica"):
            dist.broadcast_object_list(outcome, src=0, device=self.device)
        value, failure = outcome[0]
        if failure is not None:
            raise failure
        return value  # type: ignore[return-value]


def agree(facts: list[dict[str, Any]], what: str) -> None:
    """Raises SetupError when the facts of some rank differ from those of rank 0; it names rank, key and both values."""
    differing = [
        f"{key}: {first} on rank 0, {other.get(key)} on rank {rank}"
        for rank, other in enumerate(facts)
        for key in sorted({*facts[0], *other})
        if (first := facts[0].get(key)) != other.get(key)
    ]
    if differing:
        raise SetupError(f"the replicas differ in {what} ({'; '.join(differing)}); start all of them alike")


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


@dataclass(frozen=True)
class Offer:
    """What one rank tells the others before they meet."""

    config: dict[str, Any]
    gpu: bool  # whether this rank could have a GPU of its own
    threads: int
    refusal: str | None  # why this rank cannot take part

    @staticmethod
    def of(config: Config) -> Offer:
        refusal = None
        try:
            check(config)
        except SetupError as error:
            refusal = str(error)
        return Offer(config.agreed(), _gpu_each(config), torch.get_num_threads(), refusal)


def join(config: Config) -> World:
    """Meet the other ranks as the environment says (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE).

    Raises SetupError on every rank alike, and PeerLostError when the others do not come.
    """
    if config.backend == "mpi":
        return join_mpi(config)
    size = int(os.environ.get("WORLD_SIZE", "1"))
    offer = Offer.of(config)
    if size == 1:
        if offer.refusal:
            raise SetupError(offer.refusal)
        return World(0, 1, device_of(offer.gpu), (offer.threads,))
    if missing := [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]:
        raise SetupError(
            f"WORLD_SIZE is {size}, but {', '.join(missing)} is not set; set it, or unset WORLD_SIZE"
        )
    os.environ.setdefault("USE_LIBUV", "0")  # Debian's torch is built without it
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface())
    rank = int(os.environ["RANK"])
    patience = timedelta(seconds=config.timeout_s)
    with _peers(f"rank {rank} did not meet the other {size - 1}"):
        store = enter(rank, size, patience)
        offers = exchange(store, rank, size, offer)
    if refusals := [f"rank {number}: {one.refusal}" for number, one in enumerate(offers) if one.refusal]:
        raise SetupError("; ".join(refusals))
    agree([one.config for one in offers], "their configuration")
    gpus = all(one.gpu for one in offers)
    backend = config.backend or ("nccl" if gpus and dist.is_nccl_available() else "gloo")
    device = device_of(gpus)
    with _peers(f"rank {rank} did not meet the other {size - 1}"):
        connecting = min(patience, timedelta(seconds=CONNECT_S))
        dist.init_process_group(
            backend, store=dist.PrefixStore("ranks", store), rank=rank, world_size=size, timeout=connecting
        )
        dist.distributed_c10d._set_pg_timeout(patience)
    return World(rank, size, device, tuple(one.threads for one in offers))


def enter(rank: int, size: int, patience: timedelta) -> Any:
    """The store of this start of the job.

    A replica that comes back sooner than rank 0 has noticed its loss finds the store of the last start, and would wait
    there for ranks that are gone. So it waits for that store to end. torchrun's own store outlives starts, which it
    tells apart by itself.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        libuv = os.environ["USE_LIBUV"] == "1"  # which dist.rendezvous does not look at here
        agent = dist.TCPStore(address, port, size, False, timeout=patience, use_libuv=libuv)
        return dist.PrefixStore(f"start/{os.environ.get('TORCHELASTIC_RESTART_COUNT')}", agent)
    while True:
        store, _, _ = next(dist.rendezvous("env://", rank, size, timeout=patience))
        try:
            if store.add(f"arrivals/{rank}", 1) == 1 or not store.check(["complete"]):
                return store
        except dist.DistError:  # it has just ended
            pass
        del store
        time.sleep(0.2)


def exchange(store: Any, rank: int, size: int, offer: Offer) -> list[Offer]:
    """The offers of all ranks, by way of the store that rank 0 holds. Rank 0 stays until everybody has read them."""
    store.set(f"offer/{rank}", json.dumps(vars(offer)))
    offers = [Offer(**json.loads(store.get(f"offer/{other}"))) for other in range(size)]
    store.set(f"read/{rank}", "")
    if rank == 0:
        for other in range(size):
            store.get(f"read/{other}")
        store.set("complete", "")
    return offers


def join_mpi(config: Config) -> World:
    """Meet the ranks that mpirun started. Raises SetupError."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if not dist.is_mpi_available():
        raise SetupError("this build of torch has no MPI: use --backend gloo")
    dist.init_process_group("mpi")
    if size not in (1, dist.get_world_size()):
        raise SetupError(
            f"MPI started {dist.get_world_size()} of the job's {size} ranks: start them with mpirun, "
            "or use --backend gloo"
        )
    cpu = World(dist.get_rank(), dist.get_world_size(), torch.device("cpu"))
    offers = cpu.gather(Offer.of(config))
    agree([one.config for one in offers], "their configuration")
    return World(cpu.rank, cpu.size, cpu.device, tuple(one.threads for one in offers))


def check(config: Config) -> None:
    """Raises SetupError for what no restart would mend: no GPU for nccl, an interface that is not there."""
    gpus = 0 if config.no_cuda else torch.cuda.device_count()
    if config.backend == "nccl":
        if config.no_cuda:
            raise SetupError("--backend nccl needs GPUs and --no-cuda forbids them: use --backend gloo")
        if gpus == 0:
            raise SetupError(
                "--backend nccl needs a GPU in every replica and this one has none: "
                "give the replica `nvidia.com/gpu: 1`, or use --backend gloo"
            )
        if not _gpu_each(config):
            raise SetupError(
                f"--backend nccl needs a GPU for every rank, this node has {gpus} for "
                f"{os.environ.get('LOCAL_WORLD_SIZE', '?')} ranks: start fewer ranks per node, or use --backend gloo"
            )
        if not dist.is_nccl_available():
            raise SetupError("this build of torch has no NCCL: use --backend gloo")
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return
    there = {name for _, name in socket.if_nameindex()}
    if missing := set(filter(None, os.environ.get("GLOO_SOCKET_IFNAME", "").split(","))) - there:
        raise SetupError(
            f"GLOO_SOCKET_IFNAME names {', '.join(sorted(missing))}, which this pod has not; "
            f"use one of: {', '.join(sorted(there))}"
        )


def device_of(gpu: bool) -> torch.device:
    """This rank's GPU when every rank has one, else the CPU: mixed, the ranks' weights would drift apart."""
    if not gpu:
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def _gpu_each(config: Config) -> bool:
    """Whether every rank of this node has a GPU of its own."""
    gpus = torch.cuda.device_count()
    local = max(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0")) + 1)
    return not config.no_cuda and gpus >= local


def interface(routes: Path = Path("/proc/net/route"), routes_6: Path = Path("/proc/net/ipv6_route")) -> str:
    """The network interface of the default route, IPv4's before IPv6's, `lo` without one.

    gloo would otherwise take the address that the host's own name resolves to, often 127.0.0.1. The columns are those
    of Linux' proc_net(5): IPv6's has the interface last, and the prefix length in the second place.
    """
    for line in _lines(routes)[1:]:
        name, destination = line.split()[:2]
        if destination == "00000000":
            return name
    for line in _lines(routes_6):
        destination, length, *_, name = line.split()
        if set(destination) == {"0"} and length == "00" and name != "lo":
            return name
    return "lo"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:  # a kernel without this version of the protocol
        return []
