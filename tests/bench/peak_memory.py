"""The most memory that processes ever had, by what each of them is: a command's, or those of a cluster."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

PAUSE_S = 0.05
# What stands in a process' command line -> what it is: our stand-ins' modules, and the names of Pulumi's own plugins.
# The first that fits counts.
ROLES = {
    "pulumi_standins.kubernetes": "kubernetes plugin",
    "pulumi-resource-kubernetes": "kubernetes plugin",
    "pulumi.dynamic": "dynamic provider",
    "pulumi-resource-pulumi-python": "dynamic provider",
    "executor": "program",
    "pulumi_standins.language": "language host",
    "pulumi-language-python": "language host",
    "kubectl ": "kubectl",
    "pulumi ": "engine",
    "kube-apiserver ": "API server",
    "kube-controller-manager ": "controller manager",
    "kube-scheduler ": "scheduler",
    "etcd ": "etcd",
    "/manager ": "operator",
    "kwok ": "kwok",
}


def run(command: list[str], folder: Path, environment: Mapping[str, str]) -> tuple[str, dict[str, int]]:
    """Run `command`; what it printed, and role -> MiB that one process of the role had at most.

    The kernel keeps each process' peak; it is read as long as the process is there, so the last PAUSE_S of one may be
    missing. Raises AssertionError with the output where the command fails.
    """
    peaks: dict[str, int] = {}
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    ended = threading.Event()
    watching = threading.Thread(target=_watch, args=(child.pid, peaks, ended))
    watching.start()
    try:
        shown, _ = child.communicate()
    finally:
        ended.set()
        watching.join()
    assert child.returncode == 0, shown
    return shown, peaks


def _watch(top: int, peaks: dict[str, int], ended: threading.Event) -> None:
    while not ended.wait(PAUSE_S):
        for pid in family(top):
            with suppress(OSError):
                note(Path(f"/proc/{pid}"), peaks)


def below(*tops: int) -> dict[str, int]:
    """Role -> MiB that one process of the role has had at most until now, of those that run below `tops`."""
    peaks: dict[str, int] = {}
    for pid in (pid for top in tops for pid in family(top)):
        with suppress(OSError):
            note(Path(f"/proc/{pid}"), peaks)
    return peaks


def family(top: int) -> list[int]:
    """`top` and all processes below it."""
    found = [top]
    for pid in found:
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
    return found


def note(process: Path, peaks: dict[str, int]) -> None:
    """Raise the peak of the role that `process`, a folder of /proc, has. Raises OSError where it has ended."""
    words = (process / "cmdline").read_text().replace("\0", " ")
    role = next((role for part, role in ROLES.items() if part in words), None)
    lines = (process / "status").read_text().splitlines()
    kib = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
    if role:
        peaks[role] = max(peaks.get(role, 0), kib // 1024)
