"""What a process does before it imports torch: processes of its pod, threads, memory."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
WITHOUT_LIMIT = 8  # more threads do not help networks of this size
# Of glibc's <malloc.h>; its manual explains them under "Malloc Tunable Parameters".
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
BYTES = 1 << 30


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
        environ["OMP_NUM_THREADS"] = str(apply_threads({**environ, **world}))
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


def cpu_limit(cgroup: Path = CGROUP) -> float | None:
    """CPUs that the cgroup grants (v2's cpu.max, else v1's CFS quota), None without a limit."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
    except FileNotFoundError:
        try:
            quota = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text()
        except FileNotFoundError:
            return None
    if quota.strip() in ("max", "-1"):
        return None
    return int(quota) / int(period)


def thread_count(limit: float | None, usable: int, local_world: int, world: int) -> int:
    """Threads per process, at least 1.

    Parameters:
        limit: CPUs granted to the container, None without a limit
        usable: CPUs in this process's affinity mask
        local_world: training processes that share the container
        world: all training processes; without a limit they may all be on this node
    """
    if limit is None:
        return max(1, min(usable // max(world, local_world), WITHOUT_LIMIT))
    return max(1, min(int(limit), usable) // local_world)


def apply_threads(environ: MutableMapping[str, str] = os.environ) -> int:
    """Set OMP_NUM_THREADS unless the user did; returns the number of threads."""
    if "OMP_NUM_THREADS" not in environ:
        local_world = int(environ.get("LOCAL_WORLD_SIZE", "1"))
        world = int(environ.get("WORLD_SIZE", "1"))
        usable = len(os.sched_getaffinity(0))
        environ["OMP_NUM_THREADS"] = str(thread_count(cpu_limit(), usable, local_world, world))
    return int(environ["OMP_NUM_THREADS"])


def keep_freed_memory() -> bool:
    """Tell the C library to keep freed blocks of up to BYTES; returns whether it will. Only some glibcs know how.

    The order matters: a glibc that takes the second setting without the first would map every block anew.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return False
    return all(libc.mallopt(parameter, BYTES) for parameter in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD))
