"""Jobs with an ElasticPolicy: the operator names a rendezvous instead of ranks, and torchrun has to hold it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import MutableMapping, Sequence

from trainer import threads


def wanted(environ: MutableMapping[str, str]) -> bool:
    """Whether the operator set up a rendezvous and no torchrun stands above this process yet."""
    return "PET_RDZV_ENDPOINT" in environ and "RANK" not in environ


def become_torchrun(arguments: Sequence[str], environ: MutableMapping[str, str] = os.environ) -> None:
    """Replace this process by torchrun over the same command; it reads the operator's PET_* variables itself."""
    fill_in(environ)
    command = [sys.executable, "-m", "torch.distributed.run", "-m", "trainer", *arguments]
    os.execv(sys.executable, command)


def fill_in(environ: MutableMapping[str, str]) -> None:
    """What torchrun would otherwise take from the host: processes, threads of each, the address."""
    if environ.get("PET_NPROC_PER_NODE", "auto") == "auto" and not os.path.exists("/dev/nvidiactl"):
        environ["PET_NPROC_PER_NODE"] = "1"  # `auto` counts the host's cores, whatever the pod's limit
    processes = environ.get("PET_NPROC_PER_NODE", "")
    if processes.isdecimal() and int(processes) > 1:  # to which torchrun would give one thread each
        nodes = environ.get("PET_NNODES", "1").rpartition(":")[2]
        world = {"LOCAL_WORLD_SIZE": processes, "WORLD_SIZE": str(int(processes) * int(nodes))}
        environ["OMP_NUM_THREADS"] = str(threads.apply({**environ, **world}))
    environ.setdefault("PET_LOCAL_ADDR", own_address(environ["PET_RDZV_ENDPOINT"]))


def own_address(endpoint: str) -> str:
    """This pod's address towards the rendezvous. A pod's own name is not known to the others.

    Connecting a datagram socket only looks up the route; nothing is sent.
    """
    host, _, port = endpoint.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host or endpoint, int(port) if host else 29500))
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
