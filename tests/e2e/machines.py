"""A Debian machine within this one: own root file system, processes, mounts and engine, and a network to be cut."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e import clones, processes
from tests.e2e.project import Project
from tests.e2e.waiting import wait_until
from toolchain.machine import packages

PREREQUISITES = ("python3", "make", "git")
"""Debian's of those that README asks for, and what a clone comes by; Go is newer than Debian's."""
GO = "/usr/local/go"
PATH = f"{GO}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OUTWARD = "outward"
"""The link to others as it is called inside."""
OUTSIDE, INSIDE = "192.168.231.1", "192.168.231.2"
READY = "ready"
# The first process takes the place of parents that have ended, as bash does and sleep does not.
START = r"""
set -e
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
for shared in sys dev; do mount --rbind "/$shared" "$shared"; done
for given in "${@:2}"; do
    inside=".${given#*=}"
    if test -d "${given%%=*}"; then mkdir -p "$inside"; else touch "$inside"; fi
    mount --bind "${given%%=*}" "$inside"
done
mkdir -p before
pivot_root . before
umount -l before
rmdir before
touch /ready
while :; do sleep 60; done
"""


@dataclass(frozen=True)
class Machine:
    """What runs in the namespaces of process `leader`, and reaches others through `link` alone."""

    leader: int
    link: str

    def words(self, *command: str) -> list[str]:
        """The command line that runs `command` in it."""
        return ["nsenter", f"--target={self.leader}", "--mount", "--net", "--pid", *command]

    def cut_network(self) -> None:
        _run("ip", "link", "set", self.link, "down")

    def reaches_others(self) -> bool:
        """Whether its link outward carries anything."""
        command = ["nsenter", f"--target={self.leader}", "--net", "ip", "-json", "link", "show", OUTWARD]
        described = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return "LOWER_UP" in described[0]["flags"]

    def packages(self) -> set[str]:
        """Debian packages that are installed."""
        command = self.words("/usr/bin/dpkg-query", "--show", "--showformat", "${Package}\n")
        return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@dataclass
class ProjectInside(Project):
    """A clone in the folder `inside` of `machine`, whose commands have a new user's environment."""

    machine: Machine = field(kw_only=True)
    inside: str = field(kw_only=True)
    variables: Sequence[str] = field(kw_only=True)

    def words(self, *command: str) -> list[str]:
        new = ["env", "-i", f"--chdir={self.inside}", f"PATH={PATH}", "HOME=/root", "LANG=C.UTF-8"]
        return self.machine.words(*new, *self.variables, *command)


@contextmanager
def standing(suite: str, place: str) -> Iterator[ProjectInside]:
    """A machine of Debian's release `suite` with README's prerequisites, and a clone in its folder `place`.

    Go's caches are this machine's: all is compiled as on a new one, and sooner. Everything goes at the end.
    """
    with clones.owned(suite) as folder:
        root = folder / "root"
        _make_root(suite, root)
        caches = _go("GOMODCACHE", "GOCACHE")
        given = {_go("GOROOT")["GOROOT"]: GO, "/etc/resolv.conf": "/etc/resolv.conf"}
        given |= {"/etc/ssl/certs": "/etc/ssl/certs"} | {path: path for path in caches.values()}
        made = clones.clone(root / place.lstrip("/"), cluster=folder.name)
        with _machine(root, given) as machine:
            variables = [f"{name}={path}" for name, path in caches.items()]
            project = ProjectInside(
                made.root, made.cluster, machine=machine, inside=place, variables=variables
            )
            try:
                yield project
            finally:
                project.make("down")


def _make_root(suite: str, root: Path) -> None:
    if not packages.installed("mmdebstrap"):
        packages.install(["mmdebstrap"])
    options = ["--quiet", "--mode=root", "--variant=minbase", f"--include={','.join(PREREQUISITES)}"]
    _run("mmdebstrap", *options, suite, str(root))


def _go(*names: str) -> dict[str, str]:
    told = subprocess.run(["go", "env", *names], capture_output=True, text=True, check=True).stdout
    return dict(zip(names, told.splitlines(), strict=True))


@contextmanager
def _machine(root: Path, given: dict[str, str]) -> Iterator[Machine]:
    """`given`: folder or file of this machine -> where it lies in the other."""
    namespaces = ["unshare", "--mount", "--net", "--pid", "--fork"]
    mounts = [f"{source}={target}" for source, target in given.items()]
    started = subprocess.Popen(
        [*namespaces, "bash", "-c", START, "bash", str(root), *mounts], stdin=subprocess.DEVNULL
    )
    try:
        wait_until("the machine stands", lambda: started.poll() is not None or (root / READY).exists())
        leader = processes.children(started.pid)[0]
        with _network(leader) as link:
            yield Machine(leader, link)
    finally:
        processes.kill(started)


@contextmanager
def _network(leader: int) -> Iterator[str]:
    """A link between the namespaces of `leader` and this machine, which translates addresses for it."""
    link = f"ts{leader}"
    translated = ["POSTROUTING", "-s", INSIDE, "-j", "MASQUERADE"]
    inside = ["nsenter", f"--target={leader}", "--net", "ip"]
    _run("ip", "link", "add", link, "type", "veth", "peer", "name", OUTWARD, "netns", str(leader))
    try:
        _run("ip", "address", "add", f"{OUTSIDE}/30", "dev", link)
        _run("ip", "link", "set", link, "up")
        _run(*inside, "link", "set", "lo", "up")
        _run(*inside, "address", "add", f"{INSIDE}/30", "dev", OUTWARD)
        _run(*inside, "link", "set", OUTWARD, "up")
        _run(*inside, "route", "add", "default", "via", OUTSIDE)
        _run("iptables", "-t", "nat", "-A", *translated)
        for direction in ("-i", "-o"):
            _run("iptables", "-I", "FORWARD", direction, link, "-j", "ACCEPT")
        yield link
    finally:
        subprocess.run(["iptables", "-t", "nat", "-D", *translated], check=False)
        for direction in ("-i", "-o"):
            subprocess.run(["iptables", "-D", "FORWARD", direction, link, "-j", "ACCEPT"], check=False)
        subprocess.run(["ip", "link", "delete", link], check=False)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
