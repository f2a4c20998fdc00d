"""Processes that tests start, find and end."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from toolchain.machine import processes


def descendants(root: int) -> list[int]:
    """Ids of the process `root` and of all that it has started, the newest first; a session of its own stays out."""
    parents = _children()
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting += parents.get(found[-1], [])
    return found[::-1]


def children(parent: int) -> list[int]:
    """Ids of the processes that `parent` itself has started."""
    return _children().get(parent, [])


def _children() -> dict[int, list[int]]:
    parents: dict[int, list[int]] = {}
    for process in processes.every():
        parents.setdefault(process.parent, []).append(process.pid)
    return parents


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9 of a process and all that it has started."""
    for each in descendants(process.pid) if process.poll() is None else []:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    process.wait()


def working_in(folder: Path) -> dict[int, str]:
    """Id and command line of each process that works in `folder`, or was started from a file in it."""
    return {
        each.pid: each.command
        for each in processes.every()
        if f"{folder}/" in each.command or _is_in(processes.folder(each.pid), folder)
    }


def _is_in(place: Path | None, folder: Path) -> bool:
    return place is not None and place.is_relative_to(folder)
