"""Plugins whose pulumi was killed with -9: nobody will ask them again, and they never end by themselves."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from toolchain.paths import ROOT
from toolchain.steps import say

NAMES = (b"pulumi.dynamic", b"pulumi_standins", b"pulumi-resource-", b"pulumi-language-")
END_S = 2.0


@dataclass(frozen=True)
class Process:
    """One process, as /proc tells of it. `session`: id of the process that leads its session."""

    pid: int
    parent: int
    session: int
    command: bytes
    folder: Path


def end() -> list[int]:
    """End the orphaned plugins of this clone, and say so; returns their process ids."""
    sessions = _sessions()
    found = [each.pid for each in _processes() if is_orphan(each, sessions)]
    if not found:
        return []
    say(f"ending what a killed pulumi left: {', '.join(map(str, found))}")
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + END_S
        while any(_alive(pid) for pid in found) and time.monotonic() < deadline:
            time.sleep(0.05)
    return found


def is_orphan(process: Process, sessions: dict[int, int]) -> bool:
    """Whether it is a plugin that works in this clone, and its pulumi is gone.

    A child whose parent ends goes to process 1, or to one that has asked for such children: either way the parent is in
    another session then. A plugin that somebody started by hand has a living parent, its shell, in its own.
    """
    ours = process.folder == ROOT or ROOT in process.folder.parents
    plugin = any(name in process.command for name in NAMES)
    left = process.parent == 1 or sessions.get(process.parent) != process.session
    return ours and plugin and left


def _processes() -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid != os.geteuid():
                continue
            parent, session = _stat(folder)
            command, cwd = (folder / "cmdline").read_bytes(), (folder / "cwd").readlink()
        except OSError:
            continue  # it has ended meanwhile, or is a thread of the kernel
        yield Process(int(folder.name), parent, session, command, cwd)


def _stat(folder: Path) -> tuple[int, int]:
    """Parent and session of a process."""
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return int(fields[1]), int(fields[3])


def _sessions() -> dict[int, int]:
    """Process id -> its session."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found[int(folder.name)] = _stat(folder)[1]
    return found


def _alive(pid: int) -> bool:
    try:
        return (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split())[0] != "Z"
    except OSError:
        return False
