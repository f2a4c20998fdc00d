"""Processes of this machine: from /proc on Linux, from ps elsewhere."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1
_ENDED = "Z"


@dataclass(frozen=True)
class Process:
    """One process.

    `session` is the id of its session's leader, 0 if unknown; `user` is the id of its owner; `ended` means that the
    process is a zombie: its parent has not reaped it yet; `name` is its program's name, without folder.
    """

    pid: int
    parent: int
    session: int
    user: int
    ended: bool
    name: str
    command: str


def is_linux() -> bool:
    """Whether this is Linux, with its files for processes, control groups and mounts."""
    return sys.platform == "linux"


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if is_linux() else os.cpu_count() or 1


def end_with_parent(number: int) -> None:
    """Let the kernel send signal `number` to this process when its parent process ends, also if it is killed.

    Only Linux can do that. On other systems, the next command ends a process that outlives its parent.
    """
    if is_linux():
        _libc.prctl(_PR_SET_PDEATHSIG, number)


_libc = ctypes.CDLL(None, use_errno=True)  # loaded here, because a forked child must not load a library


def find(pid: int) -> Process | None:
    """The process with this id; None if there is none."""
    return _of_proc(PROC / str(pid)) if is_linux() else next(iter(_of_ps("-p", str(pid))), None)


def every() -> list[Process]:
    """All processes that this user may see."""
    if not is_linux():
        return _of_ps("-A")
    return [found for folder in PROC.glob("[0-9]*") if (found := _of_proc(folder))]


def folder(pid: int) -> Path | None:
    """The working folder of a process of this user; None if unknown."""
    if is_linux():
        with suppress(OSError):
            return (PROC / str(pid) / "cwd").readlink()
        return None
    try:
        said = re.search(r"^n(/.*)$", _said("lsof", "-a", "-p", str(pid), "-d", "cwd", "-Fn"), re.MULTILINE)
    except FileNotFoundError:
        return None
    return Path(said[1]) if said else None


def started(pid: int) -> float | None:
    """When a process was started, in seconds since 1970, to about a second; None if unknown.

    The time is counted back from now, so a change of the clock since the start changes the result.
    """
    if is_linux():
        try:
            ticks = int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19])
            uptime = float((PROC / "uptime").read_text().split()[0])
        except OSError:
            return None
        return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
    # [[days-]hours:]minutes:seconds
    days, _, clock = _said("ps", "-o", "etime=", "-p", str(pid)).strip().rpartition("-")
    if not clock:
        return None
    hours, minutes, seconds = [0, *map(int, clock.split(":"))][-3:]
    return time.time() - (int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds)


def variable(pid: int, name: str) -> str | None:
    """The value of a variable with which a process of this user was started; None if not set.

    The value must have no blanks.
    """
    if is_linux():
        try:
            text = (PROC / str(pid) / "environ").read_bytes().decode(errors="replace").replace("\0", "\n")
        except OSError:
            return None
        found = re.search(rf"^{re.escape(name)}=(.*)$", text, re.MULTILINE)
    else:
        # ps prints the variables after the command line, separated by blanks.
        found = re.search(rf" {re.escape(name)}=(\S*)", _said("ps", "eww", "-o", "command=", "-p", str(pid)))
    return found[1] if found else None


def _of_proc(folder: Path) -> Process | None:
    try:
        head, _, tail = (folder / "stat").read_text().rpartition(")")
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        user = folder.stat().st_uid
    except OSError:
        return None  # the process has ended meanwhile
    state, parent, _, session = tail.split()[:4]
    name = head.partition("(")[2]
    return Process(int(folder.name), int(parent), int(session), user, state == _ENDED, name, command.strip())


def _of_ps(*which: str) -> list[Process]:
    lines = _said("ps", *which, "-ww", "-o", "pid=,ppid=,uid=,stat=,ucomm=").splitlines()
    commands = dict(
        line.split(maxsplit=1) for line in _said("ps", *which, "-ww", "-o", "pid=,command=").splitlines()
    )
    found = []
    for line in lines:
        pid, parent, user, state, name = line.split(maxsplit=4)
        if command := commands.get(pid):
            ended = state.startswith(_ENDED)
            found.append(Process(int(pid), int(parent), 0, int(user), ended, name.strip(), command.strip()))
    return found


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, errors="replace").stdout
