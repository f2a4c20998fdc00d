"""A Debian machine whose user has Docker, Pulumi and kind, neither Go nor kubectl, and is not root.

What stands in for what is not to be had here: `public_registries` for Docker Hub and ghcr.io; for Pulumi's language
host and kubernetes plugin our own, installed as a distribution. On a machine whose root lacks CAP_SYS_RESOURCE its
Docker has our OCI runtime.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e import clones, machines, processes, public_registries
from tests.e2e.machines import Go, Machine, ProjectInside, User
from tests.e2e.public_registries import Registries
from tests.e2e.waiting import wait_until
from toolchain.machine.engine import Engine, daemon
from toolchain.paths import ROOT
from toolchain.tools import installed

SUITE = "bookworm"
USER = User("user", "/home/a user")
DOCKER = ("docker.io", "iptables", "ca-certificates")
"""As Debian's installer has them with Docker."""
PYTHON = ("python3-venv",)
"""Root's commands install it; anybody else's ask for it, or for uv."""
RUNTIME = "usr/local/lib/oci-runtime"
PLUGINS = "opt/pulumi-standins"
OF_A_DAEMON_OF_OURS = ("data-root", "exec-root", "pidfile", "hosts")


@contextmanager
def standing(engine: Engine) -> Iterator[ProjectInside]:
    """The machine, with a clone in its user's home."""
    place = f"{USER.home}/trainstack"
    more = (*DOCKER, *PYTHON, "dnsmasq-base")
    with (
        clones.owned("public") as folder,
        public_registries.standing(engine, folder) as public,
        machines.standing(SUITE, place, go=Go.NONE, more=more, user=USER, change=public.pin) as project,
        _names(project.machine, public),
    ):
        _give_programs(project.machine)
        with _docker(project.machine):
            yield project


@contextmanager
def _names(machine: Machine, public: Registries) -> Iterator[None]:
    """Have machine and containers find the public registries, and trust them."""
    with (machine.root / machines.BUNDLE.lstrip("/")).open("a") as bundle:
        bundle.write(public.certificate)
    resolv = machine.root / "etc" / "resolv.conf"
    servers = [line.split()[1] for line in resolv.read_text().splitlines() if line.startswith("nameserver")]
    resolv.write_text(f"nameserver {machine.address}\n")
    # `server=/NAME/`: nothing else is known of NAME, an IPv6 address for example.
    known = [
        word
        for name in public_registries.NAMES
        for word in (f"--host-record={name},{public.address}", f"--server=/{name}/")
    ]
    options = [
        "--keep-in-foreground",
        "--no-resolv",
        "--no-hosts",
        "--user=root",
        "--pid-file=/run/dnsmasq.pid",
    ]
    options += [f"--listen-address={machine.address}", "--bind-interfaces", *known]
    options += [f"--server={each}" for each in servers]
    with _running(machine, "dnsmasq", *options) as server:
        wait_until(
            "names are found",
            lambda: server.poll() is not None or _succeeds(machine, "getent", "hosts", public_registries.HUB),
        )
        assert server.poll() is None, "the name server has ended; see /var/log/dnsmasq.log there"
        yield


@contextmanager
def _docker(machine: Machine) -> Iterator[None]:
    """Debian's Docker as its package has it, started by hand: no systemd runs there."""
    _run(machine, "usermod", "--append", "--groups", "docker", USER.name)
    if daemon.is_restricted():
        shutil.copyfile(daemon.RUNTIME_SOURCE, machine.root / RUNTIME)
        (machine.root / RUNTIME).chmod(0o755)
        said = subprocess.run(
            _as_root(machine, "dockerd", "--version"), capture_output=True, text=True, check=True
        )
        major = int(said.stdout.split("version ")[1].split(".")[0])
        settings = daemon.configuration(True, major)
        kept = {name: value for name, value in settings.items() if name not in OF_A_DAEMON_OF_OURS}
        kept["runtimes"] = {kept["default-runtime"]: {"path": f"/{RUNTIME}"}}
        (machine.root / "etc" / "docker").mkdir(exist_ok=True)
        (machine.root / "etc" / "docker" / "daemon.json").write_text(json.dumps(kept))
    with _running(machine, "dockerd") as server:
        wait_until(
            "Docker answers", lambda: server.poll() is not None or _succeeds(machine, "docker", "version")
        )
        assert server.poll() is None, "dockerd has ended; see /var/log/dockerd.log there"
        try:
            yield
        finally:  # the kernel would keep the control groups of containers that a failed test has left
            left = "docker ps --all --quiet | xargs --no-run-if-empty docker rm --force --volumes"
            _succeeds(machine, "sh", "-c", left)


def _give_programs(machine: Machine) -> None:
    """Pulumi with its plugins, and kind, where a user's own programs are."""
    programs = machine.root / "usr" / "local" / "bin"
    for name in ("pulumi", "kind"):
        shutil.copy2(installed.choose()[name].program(), programs / name)
    shutil.copytree(ROOT / "standins", machine.root / PLUGINS / "source")
    environment = f"/{PLUGINS}/venv"
    _run(machine, "python3", "-m", "venv", environment)
    _run(machine, f"{environment}/bin/pip", "install", "--quiet", f"/{PLUGINS}/source")
    for name in ("pulumi-language-python", "pulumi-resource-kubernetes", "pulumi-resource-pulumi-python"):
        (programs / name).symlink_to(f"{environment}/bin/{name}")


@contextmanager
def _running(machine: Machine, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A service of the machine's, as long as the block lasts. What it says goes into its /var/log."""
    log = machine.root / "var" / "log" / f"{Path(command[0]).name}.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            _as_root(machine, *command), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
    try:
        yield process
    finally:
        for service in processes.children(process.pid):
            os.kill(service, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            processes.kill(process)


def _run(machine: Machine, *command: str) -> None:
    subprocess.run(_as_root(machine, *command), check=True)


def _succeeds(machine: Machine, *command: str) -> bool:
    return subprocess.run(_as_root(machine, *command), capture_output=True).returncode == 0


def _as_root(machine: Machine, *command: str) -> list[str]:
    variables = [f"{name}={value}" for name, value in machines.network_variables().items()]
    environment = [f"PATH={machines.PATH}", "HOME=/root", "LANG=C.UTF-8", *variables]
    return machine.words("env", "-i", *environment, *command)
