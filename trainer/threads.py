"""How many CPU threads this process may use: the pod's CPU limit, never the host's number of cores.

The thread pools of OpenMP and torch read their size once, so `apply` has to run before torch is imported.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
WITHOUT_LIMIT = 8  # more threads do not help networks of this size


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


def count(limit: float | None, usable: int, local_world: int, world: int) -> int:
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


def apply(environ: MutableMapping[str, str] = os.environ) -> int:
    """Set OMP_NUM_THREADS unless the user did; returns the number of threads."""
    if "OMP_NUM_THREADS" not in environ:
        local_world = int(environ.get("LOCAL_WORLD_SIZE", "1"))
        world = int(environ.get("WORLD_SIZE", "1"))
        usable = len(os.sched_getaffinity(0))
        environ["OMP_NUM_THREADS"] = str(count(cpu_limit(), usable, local_world, world))
    return int(environ["OMP_NUM_THREADS"])
