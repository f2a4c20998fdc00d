"""What a Pulumi that was killed leaves behind in our file backend: its lock and its pending operations.

Of a backend of the user's we touch no lock, and ask Pulumi for the state.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolchain.machine import processes
from toolchain.operating import adoption, pulumi_cli, state_copies, user_backend
from toolchain.operating.pulumi_cli import PARENT
from toolchain.paths import STATE
from toolchain.steps import SetupError, step

WAIT_S = 120.0
ORPHAN_S = 5.0
WRITTEN_S = 2.0
_LOCKS = STATE / ".pulumi" / "locks" / "organization" / state_copies.PROJECT


@dataclass(frozen=True)
class Lock:
    """One lock file: which process on which host works on the stack."""

    file: Path
    pid: int
    host: str

    @property
    def dead(self) -> bool:
        """Whether its process is gone. Of another host's processes we know nothing, so those count as alive."""
        if self.host != socket.gethostname():
            return False
        process = processes.find(self.pid)
        return process is None or process.ended or process.name != "pulumi"

    @property
    def orphan(self) -> bool:
        """Whether it is a pulumi of a `make up` that was killed."""
        parent = processes.variable(self.pid, PARENT)
        return parent is not None and not _is_toolchain(parent)


def _is_toolchain(pid: str) -> bool:
    process = processes.find(int(pid)) if pid.isdecimal() else None
    return process is not None and "toolchain" in process.command


def locks(stack: str) -> list[Lock]:
    """The locks on `stack` now. A file that a crash or a full disk left unreadable belongs to nobody: process 0.

    Pulumi reads every file in the folder, also one that was not renamed to its own name any more.
    """
    found = (_lock(file) for file in sorted((_LOCKS / stack).glob("*")))
    return [each for each in found if each]


def _lock(file: Path) -> Lock | None:
    """What the file says; None where it is gone. One that somebody may be writing just now gets WRITTEN_S for that."""
    while True:
        try:
            told = json.loads(file.read_text())
            return Lock(file, int(told["pid"]), str(told["hostname"]))
        except (ValueError, KeyError, TypeError):
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > WRITTEN_S:
                    return Lock(file, 0, socket.gethostname())
            time.sleep(0.1)
        except FileNotFoundError:
            return None


def release(stack: str) -> None:
    """Remove the locks of dead processes, end orphans of a killed `make up`, and wait for all others.

    Raises SetupError if that one does not end within WAIT_S seconds.
    """
    for lock in locks(stack):
        if not lock.dead:
            with step(f"waiting for process {lock.pid} on {lock.host}, which works on stack {stack}"):
                _end(lock) if lock.orphan else _wait(lock, WAIT_S)
        lock.file.unlink(missing_ok=True)


def _end(lock: Lock) -> None:
    # To pulumi, one interrupt says: begin nothing more; another one: leave what is under way.
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(lock.pid, number)
        if _ends_within(lock, ORPHAN_S):
            return


def _wait(lock: Lock, seconds: float) -> None:
    if not _ends_within(lock, seconds):
        fix = f"wait until it has ended, or end it; if it is gone, remove {lock.file}"
        raise SetupError(f"pulumi (process {lock.pid} on {lock.host}) still works on the stack", fix)


def _ends_within(lock: Lock, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while lock.file.exists() and not lock.dead:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def has_pending(deployment: Mapping[str, Any]) -> bool:
    """Whether a killed run left operations whose outcome nobody knows."""
    return bool(deployment.get("pending_operations") or adoption.half_replaced(deployment))


def has_resources(deployment: Mapping[str, Any]) -> bool:
    """Whether there is anything to take down."""
    return bool(deployment.get("resources")) or has_pending(deployment)


def deployment_of_any_backend(variables: Mapping[str, str], stack: str) -> dict[str, Any]:
    """What the stack's backend holds of it: of our own without the second that Pulumi takes. Raises SetupError."""
    return pulumi_cli.deployment(variables, stack) if user_backend.backend() else deployment(stack)


def deployment(stack: str) -> dict[str, Any]:
    """What our file backend holds of `stack`, read without Pulumi; empty where it never was up.

    Raises SetupError where the state is torn and no copy is whole.
    """
    state = json.loads(state_copies.read(stack) or "{}")
    latest: dict[str, Any] = (state.get("checkpoint") or {}).get("latest") or {}
    return latest
