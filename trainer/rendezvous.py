"""How the ranks of a job meet: their number, their device, and what happens when a rank dies meanwhile.

All replicas agree before anything is trained: they exchange configurations and hardware. If a
replica differs from rank 0, all replicas end with an error that names the rank and the key.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from trainer.distributed import PeerLostError, SetupError, World, agree, peer_errors
from trainer.launch import ExitStatus
from trainer.offer import Offer, device_of, ensure_cards_of_their_own, interface
from trainer.options import Config

CONNECT_S = 60  # gloo repeats with the same time-out, five times with torch 2.6
LOOK_S = 0.5  # between two checks whether a rank has restarted

# So NCCL raises an error for a lost rank, as gloo does: the checkpoint is saved, and the exit status is the same.
NCCL_LIKE_GLOO = {
    "TORCH_NCCL_BLOCKING_WAIT": "1",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
}


def join(config: Config) -> World:
    """Meet the other ranks by the environment's MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE.

    Raises the same SetupError on every rank, and PeerLostError if other ranks do not come.
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
            f"WORLD_SIZE is {size}, but {', '.join(missing)} is not set; set what is missing, or unset WORLD_SIZE"
        )
    os.environ.setdefault("USE_LIBUV", "0")  # Debian's torch is built without it
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface())
    rank = int(os.environ["RANK"])
    patience = timedelta(seconds=config.timeout_s)
    missed = f"rank {rank} did not meet the other {size - 1} of {size} ranks"
    with peer_errors(missed):
        store = enter(rank, size, patience)
        offers = exchange(store, rank, size, offer)
    if refusals := [f"rank {number}: {one.refusal}" for number, one in enumerate(offers) if one.refusal]:
        raise SetupError("; ".join(refusals))
    agree([one.config for one in offers], "their configuration")
    gpus = all(one.gpu for one in offers)
    backend = config.backend or ("nccl" if gpus and dist.is_nccl_available() else "gloo")
    device = device_of(gpus)
    if backend == "nccl":
        ensure_cards_of_their_own(offers)
        os.environ.update(NCCL_LIKE_GLOO)
    connecting = min(patience, timedelta(seconds=CONNECT_S))
    with peer_errors(missed), ends_with_peers(missed):
        store.get("complete")  # until then, a restarted rank can still replace one that died
        dist.init_process_group(
            backend, store=dist.PrefixStore("ranks", store), rank=rank, world_size=size, timeout=connecting
        )
        dist.distributed_c10d._set_pg_timeout(patience)
    return World(rank, size, device, tuple(one.threads for one in offers))


def enter(rank: int, size: int, patience: timedelta) -> Any:
    """The store of this start of the job.

    If a replica restarts after the ranks began to connect, it and the other ranks would wait for each other. So
    the restarted replica marks this start as abandoned, and waits until the process of rank 0 ends, and with it the
    store. torchrun's own store lives longer than a start; torchrun itself distinguishes starts.
    """
    if by_torchrun():
        return dist.PrefixStore(f"start/{os.environ.get('TORCHELASTIC_RESTART_COUNT')}", client(patience))
    while True:
        store, _, _ = next(dist.rendezvous("env://", rank, size, timeout=patience))
        try:
            if store.add(f"arrivals/{rank}", 1) == 1 or not store.check(["complete"]):
                return store
            store.set("abandoned", "")
        except dist.DistError:  # the store has just ended
            pass
        del store
        time.sleep(0.2)


def by_torchrun() -> bool:
    """Whether torchrun holds the store."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def client(patience: timedelta) -> Any:
    """A separate connection to the store that rank 0 or torchrun holds."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    libuv = os.environ["USE_LIBUV"] == "1"  # TCPStore itself does not read this variable
    return dist.TCPStore(
        address, port, None, False, timeout=patience, use_libuv=libuv, wait_for_workers=False
    )


def exchange(store: Any, rank: int, size: int, offer: Offer) -> list[Offer]:
    """The offers of all ranks, through rank 0's store. Rank 0 waits until every rank has read them."""
    store.set(f"offer/{rank}", json.dumps(vars(offer)))
    offers = [Offer(**json.loads(store.get(f"offer/{other}"))) for other in range(size)]
    store.set(f"read/{rank}", "")
    if rank == 0:
        for other in range(size):
            store.get(f"read/{other}")
        store.set("complete", "")
    return offers


@contextmanager
def ends_with_peers(missed: str) -> Iterator[None]:
    """While ranks connect, end this process for a restart as soon as another rank has restarted.

    gloo does not notice that a rank has died, and waits minutes for it.

    Parameters:
        missed: the beginning of the printed error.
    """
    connected = threading.Event()

    def watch() -> None:
        try:
            with peer_errors(missed):
                store = client(timedelta(seconds=CONNECT_S))
                while not connected.wait(LOOK_S):
                    if store.check(["abandoned"]):
                        raise RuntimeError("another replica has restarted meanwhile")
        except PeerLostError as error:
            if not connected.is_set():
                print(f"error: {error}", file=sys.stderr, flush=True)
                os._exit(ExitStatus.PEER_LOST)

    if not by_torchrun():
        threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        connected.set()


def join_mpi(config: Config) -> World:
    """Meet the ranks that mpirun started. Raises SetupError."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if not dist.is_mpi_available():
        raise SetupError("this build of torch has no MPI: use --backend gloo")
    dist.init_process_group("mpi")
    if size not in (1, dist.get_world_size()):
        raise SetupError(
            f"MPI has {dist.get_world_size()} ranks, and WORLD_SIZE is {size}: start {size} ranks with mpirun, "
            "or use --backend gloo"
        )
    cpu = World(dist.get_rank(), dist.get_world_size(), torch.device("cpu"))
    offers = cpu.gather(Offer.of(config))
    agree([one.config for one in offers], "their configuration")
    return World(cpu.rank, cpu.size, cpu.device, tuple(one.threads for one in offers))
