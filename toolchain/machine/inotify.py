"""The limit of inotify instances for a user's programs. Each node of a kind cluster needs some of them.

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
"""Counted on a running stack `dev`: kubelet, controllers, API server and kube-proxy of one node, plus the operator."""


def limit() -> int:
    """Instances that one user may have."""
    return int(INSTANCES.read_text())


def in_use() -> int:
    """Instances that this user's processes use."""
    return sum(_is_instance(each) for each in processes.PROC.glob("[0-9]*/fd/*"))


def _is_instance(descriptor: Path) -> bool:
    try:
        return os.readlink(descriptor) == "anon_inode:inotify"
    except OSError:  # the process has ended, or is another user's, which has its own limit
        return False


@contextmanager
def at_least(instances: int) -> Iterator[None]:
    """Raise the limit to `instances` while the block runs.

    Raises SetupError if the limit is lower and we may not change it.
    """
    before = limit() if instances else 0
    if before >= instances:
        yield
        return
    try:
        INSTANCES.write_text(str(instances))
    except OSError:
        raise SetupError(
            f"the clusters that run at once need {instances} inotify instances; the limit of a user is {before}",
            f"sudo sysctl -w fs.inotify.max_user_instances={instances}",
        ) from None
    try:
        yield
    finally:
        INSTANCES.write_text(str(before))
