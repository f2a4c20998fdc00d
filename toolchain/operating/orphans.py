"""Plugins whose pulumi was killed with -9: nobody will ask them again, and they never end by themselves."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from toolchain.machine import processes
from toolchain.machine.processes import Process
from toolchain.paths import ROOT
from toolchain.steps import say

NAMES = ("pulumi.dynamic", "pulumi_standins", "pulumi-resource-", "pulumi-language-")
END_S = 2.0


def end() -> list[int]:
    """End the orphaned plugins of this clone, and say so; returns their process ids."""
    every = processes.every()
    sessions = {each.pid: each.session for each in every}
    found = [each.pid for each in every if is_orphan(each, sessions) and _works_here(each.pid)]
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
    """Whether it is a plugin of this user whose pulumi is gone.

    A child whose parent ends goes to process 1, or to one that has asked for such children: either way the parent is in
    another session then. A plugin that somebody started by hand has a living parent, its shell, in its own.

    Parameters:
        sessions: process id -> its session.
    """
    plugin = process.user == os.geteuid() and any(name in process.command for name in NAMES)
    return plugin and (process.parent == 1 or sessions.get(process.parent) != process.session)


def _works_here(pid: int) -> bool:
    folder = processes.folder(pid)
    return folder is not None and folder.is_relative_to(ROOT)


def _alive(pid: int) -> bool:
    process = processes.find(pid)
    return process is not None and not process.ended
