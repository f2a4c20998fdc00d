"""Starts and stops our own dockerd: Debian's program, with its own data, socket and configuration."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from infra.atomic_file import write_whole
from toolchain.machine.engine import network
from toolchain.machine.engine.oci_runtime import bounding_set
from toolchain.paths import MACHINE, MACHINE_RUN
from toolchain.steps import SetupError

HOME = MACHINE
DATA = HOME / "docker"
CONFIG = HOME / "daemon.json"
LOG = HOME / "dockerd.log"
RUN = MACHINE_RUN
SOCKET = RUN / "docker.sock"
PIDFILE = RUN / "docker.pid"
HOST = f"unix://{SOCKET}"

START_S = 60
STOP_S = 60
# This runtime limits what a container asks for, on a host whose root lacks CAP_SYS_RESOURCE.
RUNTIME_SOURCE = Path(__file__).with_name("oci_runtime.py")
# A copy of the runtime, because the engine may outlive the clone that started it.
RUNTIME = HOME / "oci-runtime"
# Since this version, dockerd keeps its own OOM score, and refuses a configuration that sets one.
NO_OOM_SCORE = 25


def is_restricted(status: Path = Path("/proc/self/status")) -> bool:
    """Whether root on this host lacks CAP_SYS_RESOURCE, so that privileged containers need our runtime."""
    return "CAP_SYS_RESOURCE" not in bounding_set(status.read_text())


def install_runtime() -> None:
    RUNTIME.parent.mkdir(parents=True, exist_ok=True)
    write_whole(RUNTIME, RUNTIME_SOURCE.read_text(), mode=0o755)


def configuration(restricted: bool, major: int) -> dict[str, object]:
    """dockerd's daemon.json as data. `major`: the first number of dockerd's version."""
    settings: dict[str, object] = {
        "data-root": str(DATA),
        "exec-root": str(RUN / "docker"),
        "pidfile": str(PIDFILE),
        "hosts": [HOST],
    }
    if restricted:
        settings |= {
            "default-cgroupns-mode": "private",
            "default-runtime": "fitted",
            "runtimes": {"fitted": {"path": str(RUNTIME)}},
        }
        if major < NO_OOM_SCORE:
            settings["oom-score-adjust"] = 0
    return settings


def major_version() -> int:
    """The first number of dockerd's version. Raises SetupError if dockerd prints none."""
    try:
        said = subprocess.run(["dockerd", "--version"], capture_output=True, text=True).stdout
    except OSError as error:
        raise SetupError(
            f"cannot run dockerd: {error.strerror}", "install Debian's docker.io again"
        ) from None
    if not (found := re.search(r"version (\d+)\.", said)):
        raise SetupError(f"dockerd reports no version: {said.strip()}", "install Debian's docker.io again")
    return int(found[1])


def holds_containers() -> bool:
    """Whether our engine's folder holds containers, running or not. No other engine sees them."""
    try:
        return any((DATA / "containers").iterdir())
    except OSError:
        return False  # no such folder, or no right to read it


def pid() -> int | None:
    """Process id of our running dockerd, or None. A stale pid file does not count."""
    try:
        number = int(PIDFILE.read_text())
    except (OSError, ValueError):
        return None
    return number if _runs(number) else None


def _runs(number: int) -> bool:
    """Whether process `number` is our running dockerd. A zombie, which has ended but is not reaped, does not count."""
    try:
        command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return str(CONFIG).encode() in command


def start() -> None:
    """Start dockerd and wait for its socket. Raises SetupError with the end of its log."""
    HOME.mkdir(parents=True, exist_ok=True)
    RUN.mkdir(parents=True, exist_ok=True)
    if pid() is None:
        SOCKET.unlink(missing_ok=True)
        PIDFILE.unlink(missing_ok=True)
        _forget_dead_containerd()
        restricted = is_restricted()
        if restricted:
            install_runtime()
        CONFIG.write_text(json.dumps(configuration(restricted, major_version()), indent=2))
        network.save_settings(HOME / "network.json")
        with LOG.open("wb") as log:
            started = subprocess.Popen(
                ["dockerd", "--config-file", str(CONFIG)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        _wait_for_socket(lambda: started.poll() is not None)
    else:
        _wait_for_socket(lambda: pid() is None)


def _forget_dead_containerd() -> None:
    """Remove the pid file of a killed containerd.

    dockerd would wait for any process that now has the id in that file, even for a zombie, and then give up.
    """
    file = RUN / "docker" / "containerd" / "containerd.pid"
    try:
        command = Path(f"/proc/{int(file.read_text())}/cmdline").read_bytes()
    except (OSError, ValueError):
        command = b""
    if b"containerd" not in command:
        file.unlink(missing_ok=True)


def _wait_for_socket(has_ended: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while not (SOCKET.exists() and "API listen on" in LOG.read_text(errors="replace")):
        ended = has_ended()
        if ended or time.monotonic() >= deadline:
            tail = "\n".join(f"  | {line}" for line in LOG.read_text(errors="replace").splitlines()[-15:])
            what = "dockerd has ended" if ended else f"dockerd did not come up within {START_S} s"
            raise SetupError(f"{what}\n{tail}", f"see {LOG}")
        time.sleep(0.1)


def stop() -> None:
    """Stop our dockerd, then remove its bridges and packet filter rules."""
    if number := pid():
        os.kill(number, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        while _runs(number) and time.monotonic() < deadline:
            time.sleep(0.05)
        if _runs(number):
            raise SetupError(f"dockerd (process {number}) does not stop", f"see {LOG}")
    sweep()


def sweep() -> None:
    """Remove what our dockerd left when it ended: bridges, packet filter rules, run folder.

    This does nothing if dockerd runs, or has not run since the machine started.
    """
    if not RUN.exists() or pid() is not None:
        return
    network.restore_settings(HOME / "network.json")
    _unmount_below(RUN, DATA)
    shutil.rmtree(RUN, ignore_errors=True)


def _unmount_below(*folders: Path) -> None:
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for point in sorted(mounted, reverse=True):
        if any(Path(point).is_relative_to(folder) for folder in folders):
            subprocess.run(["umount", "--lazy", point], check=False)


def remove_data() -> None:
    """Delete the images, volumes and containers of our engine."""
    if pid() is not None:
        raise SetupError("our container engine still runs", "run `make down` first")
    shutil.rmtree(DATA, ignore_errors=True)
    for leftover in (CONFIG, LOG, HOME / "network.json", RUNTIME):
        leftover.unlink(missing_ok=True)
