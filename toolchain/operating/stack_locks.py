"""Locks and plugins that Pulumi holds, or that a killed Pulumi has left. Locks exist only in a backend of files.

A lock is a file (pkg/v3/backend/diy/lock.go). Pulumi creates one for each command that writes the state, and fails at
once if there is another lock. This module does not look into a bucket or a service: Pulumi reports locks there.
"""

from __future__ import annotations

import getpass
import json
import os
import random
import re
import signal
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from infra.atomic_file import write_whole
from toolchain.machine import processes
from toolchain.machine.processes import Process
from toolchain.operating import user_backend
from toolchain.operating.state_copies import PROJECT
from toolchain.paths import ROOT
from toolchain.steps import SetupError, say, step

PARENT = "TRAINSTACK_PARENT"
"""A variable with the id of the process that started a pulumi. So we find a pulumi that outlives that process."""

WAIT_S = 120.0
ORPHAN_S = 5.0
WRITTEN_S = 2.0
REUSED_S = 60.0
"""If a process started this many seconds after the lock was written, it is another process with the same id."""

_REFUSALS = (
    "the stack is currently locked by",
    "Another update is currently in progress",
    r"^error: unexpected end of JSON input$",
    r"/\.pulumi/locks/.*: no such file or directory",
)
"""What Pulumi says about a locked stack in a backend of files or a bucket, and in its service.

The last two texts appear if another Pulumi writes or removes its lock while this one reads it.
"""

_KEPT = ".pulumi"
_LOCKS = "locks"
PLUGINS = ("pulumi.dynamic", "pulumi_standins", "pulumi-resource-", "pulumi-language-")
PLUGIN_END_S = 2.0


@dataclass(frozen=True)
class Lock:
    """One lock file: the process that works on the stack, its user and host, and the time when it began.

    `host` is empty if the file cannot be read. `since` is None if the file has no time.
    """

    file: Path
    pid: int = 0
    host: str = ""
    user: str = ""
    since: datetime | None = None

    @property
    def is_here(self) -> bool:
        """Whether the lock's process runs, or ran, on this host."""
        return self.host == socket.gethostname()

    @property
    def dead(self) -> bool:
        """Whether the lock's process has ended. Processes of another host are unknown, so they count as alive."""
        if not self.is_here:
            return False
        process = processes.find(self.pid)
        if process is None or process.ended or (process.name != "pulumi" and not _is_toolchain(process)):
            return True
        began = processes.started(self.pid)
        return bool(self.since and began and began > self.since.timestamp() + REUSED_S)

    @property
    def orphan(self) -> bool:
        """Whether the lock's process is a pulumi on this host whose `make up` was killed."""
        parent = processes.variable(self.pid, PARENT) if self.is_here else None
        if parent is None:
            return False
        process = processes.find(int(parent)) if parent.isdecimal() else None
        return process is None or not _is_toolchain(process)

    def __str__(self) -> str:
        if not self.host:
            return f"a lock that cannot be read: {self.file}"
        since = f" since {self.since.astimezone():%Y-%m-%d %H:%M:%S}" if self.since else ""
        return f"process {self.pid} of {self.user or 'an unknown user'} on {self.host}{since}"


def _is_toolchain(process: processes.Process) -> bool:
    return "toolchain" in process.command


def locks(stack: str) -> list[Lock]:
    """The current locks on `stack`; none if the backend is not a folder.

    Pulumi reads every file in the folder of locks, also a file that still has its temporary name.
    """
    folder = user_backend.folder()
    if folder is None:
        return []
    found = (_lock(file) for file in sorted(_place(folder, stack).glob("*")))
    return [each for each in found if each]


def _place(folder: Path, stack: str) -> Path:
    return folder / _KEPT / _LOCKS / "organization" / PROJECT / stack


def _lock(file: Path) -> Lock | None:
    """The lock in the file; None if the file is gone. A half-written file gets WRITTEN_S to become complete.

    A crash or a full disk may leave a half-written file. In this clone's own backend, such a lock is of a dead process:
    process 0. In a backend that others use, the owner of such a lock is unknown.
    """
    began = time.monotonic()
    while True:
        try:
            told = json.loads(file.read_text())
            pid, host, user = int(told["pid"]), str(told["hostname"]), str(told.get("username", ""))
            return Lock(file, pid, host, user, _time(told.get("timestamp")))
        except (ValueError, KeyError, TypeError):
            with suppress(FileNotFoundError):
                # Two clocks measure the time: a file server may have another clock.
                if max(time.time() - file.stat().st_mtime, time.monotonic() - began) > WRITTEN_S:
                    return Lock(file, host="" if user_backend.backend() else socket.gethostname())
            time.sleep(0.1)
        except FileNotFoundError:
            return None
        except OSError:
            return Lock(file)


def _time(told: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(told)).astimezone()
    except ValueError:
        return None


def release(stack: str) -> None:
    """Remove the locks of dead processes, end orphans of a killed `make up`, and wait for all other processes.

    Raises SetupError if a process does not end within WAIT_S seconds.
    """
    for lock in locks(stack):
        if not lock.dead:
            with step(f"waiting for {lock}, which works on stack {stack}"):
                if lock.orphan:
                    _end(lock)
                _wait(lock, stack)
        try:
            lock.file.unlink(missing_ok=True)
        except OSError as error:
            what = f"the lock of {lock}, which has ended, cannot be removed: {error.strerror}"
            raise SetupError(what, f"ask that user to remove {lock.file}") from None


def _end(lock: Lock) -> None:
    # The first interrupt tells pulumi to begin nothing more. The second tells it to stop running operations.
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(lock.pid, number)
        if _ends_within(lock, ORPHAN_S):
            return


def _wait(lock: Lock, stack: str) -> None:
    if _ends_within(lock, WAIT_S):
        return
    if lock.is_here:
        fix = f"wait until it has ended, or end it: `kill -INT {lock.pid}`"
    else:
        fix = "wait until it has ended; " + cancel(stack)
    raise SetupError(f"stack {stack} is locked: {lock} still works on it", fix)


def cancel(stack: str) -> str:
    """How the user removes a lock whose process may still run."""
    return (
        "only if the lock's owner says that their command has ended, remove the lock: "
        f"`pulumi cancel --yes --stack {stack}`"
    )


def _ends_within(lock: Lock, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while lock.file.exists() and not lock.dead:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def is_refusal(said: str) -> bool:
    """Whether Pulumi has refused because somebody else works on the stack."""
    return any(re.search(each, said, re.MULTILINE) for each in _REFUSALS)


@contextmanager
def held(stack: str) -> Iterator[dict[str, str]]:
    """Hold the lock of `stack` during several Pulumi commands, if its backend is a folder.

    Pulumi takes its own lock for each command, and our lock would stop it. So this yields variables for these commands.
    They name a folder that shares everything with the backend except the locks. Raises SetupError as `release` does.
    """
    folder = user_backend.folder()
    if folder is None:
        yield {}
        return
    ours = _take(folder, stack)
    try:
        with tempfile.TemporaryDirectory(prefix="trainstack-backend-") as behind:
            kept = Path(behind) / _KEPT
            kept.mkdir()
            for each in (folder / _KEPT).iterdir():
                if each.name != _LOCKS:
                    (kept / each.name).symlink_to(each)
            yield {user_backend.BACKEND: user_backend.in_folder(Path(behind))}
    finally:
        ours.unlink(missing_ok=True)


def _take(folder: Path, stack: str) -> Path:
    """Take the lock as Pulumi does: look, write, look again. If two processes wrote, both remove theirs and retry."""
    place = _place(folder, stack)
    place.mkdir(parents=True, exist_ok=True)
    told = {
        "pid": os.getpid(),
        "username": getpass.getuser(),
        "hostname": socket.gethostname(),
        "timestamp": datetime.now(UTC).isoformat(),
    }
    while True:
        release(stack)
        name = f"{uuid.uuid4()}.json"
        # The file is written in another folder: Pulumi fails if it finds half a file among the locks.
        write_whole(folder / _KEPT / _LOCKS / name, json.dumps(told))
        ours = (folder / _KEPT / _LOCKS / name).rename(place / name)
        if all(each.file == ours for each in locks(stack)):
            return ours
        ours.unlink(missing_ok=True)
        time.sleep(random.uniform(0.1, 0.5))


def end_orphans() -> list[int]:
    """End plugins of this clone whose pulumi was killed with -9, and say so; returns their process ids.

    Such plugins have no more work, and never end by themselves.
    """
    every = processes.every()
    sessions = {each.pid: each.session for each in every}
    found = [each.pid for each in every if is_orphan(each, sessions) and _works_here(each.pid)]
    if not found:
        return []
    say(f"ending processes that a killed pulumi left: {', '.join(map(str, found))}")
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + PLUGIN_END_S
        while any(_alive(pid) for pid in found) and time.monotonic() < deadline:
            time.sleep(0.05)
    return found


def is_orphan(process: Process, sessions: dict[int, int]) -> bool:
    """Whether `process` is a plugin of this user whose pulumi has ended.

    When its parent ends, a child gets process 1 as parent, or a process that adopts such children. In both cases the
    new parent is in another session. A plugin that somebody started by hand has a living parent, its shell, in its
    session.

    Parameters:
        sessions: process id -> session.
    """
    plugin = process.user == os.geteuid() and any(name in process.command for name in PLUGINS)
    return plugin and (process.parent == 1 or sessions.get(process.parent) != process.session)


def _works_here(pid: int) -> bool:
    folder = processes.folder(pid)
    return folder is not None and folder.is_relative_to(ROOT)


def _alive(pid: int) -> bool:
    process = processes.find(pid)
    return process is not None and not process.ended
