"""Processes that tests start, find and end."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path


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
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    return parents


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9 of a process and all that it has started."""
    for each in descendants(process.pid) if process.poll() is None else []:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    process.wait()


def working_in(folder: Path) -> dict[int, str]:
    """Id and command line of each process that works in `folder`, or was started from a file in it."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            inside = (process / "cwd").readlink().is_relative_to(folder)
        except OSError:
            continue
        if inside or f"{folder}/" in command:
            found[int(process.name)] = command
    return found
