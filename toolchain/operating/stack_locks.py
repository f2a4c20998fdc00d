"""What a Pulumi holds of a stack, or left when it was killed: its locks in a backend of files, and its plugins.

A lock is a file (pkg/v3/backend/diy/lock.go). Pulumi makes one for each command that writes the state, and fails at
once where there is another. A bucket or a service is not looked into: that a stack is locked there, Pulumi says.
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
"""Variable that tells the process that started a pulumi, for one that outlives it."""

WAIT_S = 120.0
ORPHAN_S = 5.0
WRITTEN_S = 2.0
REUSED_S = 60.0
"""A process that began so much later than the lock was written is another one, which got the number of the first."""

_REFUSALS = (
    "the stack is currently locked by",
    "Another update is currently in progress",
    r"^error: unexpected end of JSON input$",
    r"/\.pulumi/locks/.*: no such file or directory",
)
"""What Pulumi says of a locked stack: of files and buckets, and of its service.

The last two it says where another Pulumi writes or removes its lock while this one reads it.
"""

_KEPT = ".pulumi"
_LOCKS = "locks"
PLUGINS = ("pulumi.dynamic", "pulumi_standins", "pulumi-resource-", "pulumi-language-")
PLUGIN_END_S = 2.0


@dataclass(frozen=True)
class Lock:
    """One lock file: which process of whom, on which host, works on the stack, since when.

    `host` is empty where the file cannot be read. `since` is None where it does not say that.
    """

    file: Path
    pid: int = 0
    host: str = ""
    user: str = ""
    since: datetime | None = None

    @property
    def is_here(self) -> bool:
        """Whether its process is, or was, one of this host."""
        return self.host == socket.gethostname()

    @property
    def dead(self) -> bool:
        """Whether its process is gone. Of another host's processes we know nothing, so those count as alive."""
        if not self.is_here:
            return False
        process = processes.find(self.pid)
        if process is None or process.ended:
            return True
        if process.name != "pulumi" and not _is_toolchain(process):
            return True
        began = processes.started(self.pid)
        return bool(self.since and began and began > self.since.timestamp() + REUSED_S)

    @property
    def orphan(self) -> bool:
        """Whether it is a pulumi of a `make up` of this host that was killed."""
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
    """The locks on `stack` now; none where the backend is no folder.

    Pulumi reads every file there, also one that was not renamed to its own name any more.
    """
    folder = user_backend.folder()
    if folder is None:
        return []
    found = (_lock(file) for file in sorted(_place(folder, stack).glob("*")))
    return [each for each in found if each]


def _place(folder: Path, stack: str) -> Path:
    return folder / _KEPT / _LOCKS / "organization" / PROJECT / stack


def _lock(file: Path) -> Lock | None:
    """What the file says; None where it is gone. One that somebody may be writing just now gets WRITTEN_S for that.

    What a crash or a full disk left half written in this clone's own backend is a dead process's: process 0. In one
    that others use, too, nobody knows whose it is.
    """
    began = time.monotonic()
    while True:
        try:
            told = json.loads(file.read_text())
            pid, host, user = int(told["pid"]), str(told["hostname"]), str(told.get("username", ""))
            return Lock(file, pid, host, user, _time(told.get("timestamp")))
        except (ValueError, KeyError, TypeError):
            with suppress(FileNotFoundError):
                # By two clocks: that of a file server may be another one.
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
    """Remove the locks of dead processes, end orphans of a killed `make up`, and wait for all others.

    Raises SetupError where one of those does not end within WAIT_S seconds.
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
            raise SetupError(what, f"have its user do that: {lock.file}") from None


def _end(lock: Lock) -> None:
    # To pulumi, one interrupt says: begin nothing more; another one: leave what is under way.
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(lock.pid, number)
        if _ends_within(lock, ORPHAN_S):
            return


def _wait(lock: Lock, stack: str) -> None:
    if _ends_within(lock, WAIT_S):
        return
    if lock.host and lock.is_here:
        fix = f"wait until it has ended, or end it: `kill -INT {lock.pid}`"
    else:
        fix = "wait until it has ended; " + cancel(stack)
    raise SetupError(f"stack {stack} is locked: {lock} still works on it", fix)


def cancel(stack: str) -> str:
    """How the user takes away a lock that we cannot tell to be a dead one."""
    return (
        "only where whoever has it says that nothing of it runs any more, take the lock away: "
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
    """Whether Pulumi has refused to work, as somebody else works on the stack."""
    return any(re.search(each, said, re.MULTILINE) for each in _REFUSALS)


@contextmanager
def held(stack: str) -> Iterator[dict[str, str]]:
    """Hold the lock of `stack` where its backend is a folder, so that several commands of Pulumi's are one.

    Pulumi takes its own lock for each command, and would be refused by ours. So it gets the variables that this yields:
    they name a folder that shares all with the backend's but the locks. Raises SetupError as `release` does.
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
    """As Pulumi does it: look, write, look again. Where both have written, both let go."""
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
        # Written elsewhere: Pulumi fails where it finds half a file among the locks.
        write_whole(folder / _KEPT / _LOCKS / name, json.dumps(told))
        ours = (folder / _KEPT / _LOCKS / name).rename(place / name)
        if all(each.file == ours for each in locks(stack)):
            return ours
        ours.unlink(missing_ok=True)
        time.sleep(random.uniform(0.1, 0.5))


def end_orphans() -> list[int]:
    """End the plugins of this clone whose pulumi was killed with -9, and say so; returns their process ids.

    Nobody asks them again, and they never end by themselves.
    """
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
        deadline = time.monotonic() + PLUGIN_END_S
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
    plugin = process.user == os.geteuid() and any(name in process.command for name in PLUGINS)
    return plugin and (process.parent == 1 or sessions.get(process.parent) != process.session)


def _works_here(pid: int) -> bool:
    folder = processes.folder(pid)
    return folder is not None and folder.is_relative_to(ROOT)


def _alive(pid: int) -> bool:
    process = processes.find(pid)
    return process is not None and not process.ended
