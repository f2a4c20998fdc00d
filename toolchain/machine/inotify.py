"""How many files a user's programs may watch at once: each node of a kind cluster takes a part of it.

https://kind.sigs.k8s.io/docs/user/known-issues/#pod-errors-due-to-too-many-open-files
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolchain.machine import processes
from toolchain.steps import SetupError

INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
OF_A_NODE = 27
"""Counted on a running `dev`: kubelet, controllers, API server and kube-proxy of one node, and the operator."""


def limit() -> int:
    """Instances that one user may have."""
    return int(INSTANCES.read_text())


def in_use() -> int:
    """Instances that this user's processes have."""
    return sum(_is_instance(each) for each in processes.PROC.glob("[0-9]*/fd/*"))


def _is_instance(descriptor: Path) -> bool:
    try:
        return os.readlink(descriptor) == "anon_inode:inotify"
    except OSError:  # it has ended, or is another user's: the limit is each user's own
        return False


@contextmanager
def at_least(instances: int) -> Iterator[None]:
    """Let a user have that many while the block runs.

    Raises SetupError where the limit is lower and not ours to set.
    """
    before = limit() if instances else 0
    if before >= instances:
        yield
        return
    try:
        INSTANCES.write_text(str(instances))
    except OSError:
        raise SetupError(
            f"the clusters that run at once need {instances} inotify instances, and a user may have {before}",
            f"sudo sysctl -w fs.inotify.max_user_instances={instances}",
        ) from None
    try:
        yield
    finally:
        INSTANCES.write_text(str(before))
