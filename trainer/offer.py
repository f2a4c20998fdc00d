"""What one rank tells the others: its configuration, GPU and threads. Also finds the rank's network interface."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from trainer.distributed import SetupError
from trainer.options import Config


@dataclass(frozen=True)
class Offer:
    """What one rank tells the other ranks before training."""

    config: dict[str, Any]
    gpu: bool  # whether this rank could have its own GPU
    threads: int
    refusal: str | None  # why this rank cannot join
    card: str = ""  # the GPU's UUID, the same for every rank that uses this GPU; empty without a GPU

    @staticmethod
    def of(config: Config) -> Offer:
        """The offer of this process, with `check`'s refusal, if any."""
        refusal = None
        try:
            check(config)
        except SetupError as error:
            refusal = str(error)
        gpu = gpu_each(config)
        return Offer(config.agreed(), gpu, torch.get_num_threads(), refusal, card_of(gpu))


def check(config: Config) -> None:
    """Raises SetupError for causes that a restart does not repair: no GPU for nccl, a missing interface."""
    gpus = 0 if config.no_cuda else torch.cuda.device_count()
    if config.backend == "nccl":
        if config.no_cuda:
            raise SetupError("--backend nccl needs GPUs and --no-cuda forbids them: use --backend gloo")
        if gpus == 0:
            raise SetupError(
                "--backend nccl needs a GPU in every replica and this one has none: "
                "give the replica `nvidia.com/gpu: 1`, or use --backend gloo"
            )
        if not gpu_each(config):
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
            f"GLOO_SOCKET_IFNAME names {', '.join(sorted(missing))}, which this pod does not have; "
            f"use one of: {', '.join(sorted(there))}"
        )


def card_of(gpu: bool) -> str:
    """The UUID of this rank's GPU, empty without a GPU."""
    return str(torch.cuda.get_device_properties(local_rank()).uuid) if gpu else ""


def local_rank() -> int:
    """The number of this rank on its node, which is also the number of its GPU there."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def ensure_cards_of_their_own(offers: Sequence[Offer]) -> None:
    """Raises SetupError, naming the ranks, if two ranks share a GPU: NCCL needs a GPU for each rank."""
    first: dict[str, int] = {}
    for rank, offer in enumerate(offers):
        if offer.card and (other := first.setdefault(offer.card, rank)) != rank:
            raise SetupError(
                f"ranks {other} and {rank} share the GPU {offer.card}, and NCCL needs a GPU for each rank: start fewer "
                "ranks, give each replica `nvidia.com/gpu: 1`, or use --backend gloo"
            )


def device_of(gpu: bool) -> torch.device:
    """This rank's GPU if every rank has one, else the CPU: on different devices the ranks' weights would differ."""
    if not gpu:
        return torch.device("cpu")
    device = torch.device("cuda", local_rank())
    torch.cuda.set_device(device)
    return device


def gpu_each(config: Config) -> bool:
    """Whether every rank of this node has its own GPU."""
    gpus = torch.cuda.device_count()
    local = max(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), local_rank() + 1)
    return not config.no_cuda and gpus >= local


def interface(routes: Path = Path("/proc/net/route"), routes_6: Path = Path("/proc/net/ipv6_route")) -> str:
    """The network interface of the default route: that of IPv4, else that of IPv6, else `lo`.

    gloo would otherwise resolve the host's own name, often to 127.0.0.1. The columns are those of Linux' proc_net(5):
    IPv6's table has the interface last, and the prefix length in the second column.
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
