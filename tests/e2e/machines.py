"""A Debian machine within this one: own root file system, processes, mounts and engine, and a network to be cut."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
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
NETWORKS = ipaddress.ip_network("10.231.0.0/16")
"""Each machine has four addresses of these."""
READY = "ready"
HANG_S = 4 * 3600
"""Guards against hangs: all that a machine needs is made in one command."""
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
OWN_AUTHORITIES = Path("/usr/local/share/ca-certificates")
"""What Debian's package ca-certificates adds to the bundle."""
NETWORK_FILES = ("/etc/resolv.conf", BUNDLE, "/etc/pip.conf")
"""Those of this machine that tell how registries are reached from here, as each user of this network has them."""
NETWORK_VARIABLES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "GOPROXY", "GONOSUMDB", "GOSUMDB"),
    "TRAINSTACK_DEBIAN_MIRROR",
)
"""Variables that tell the same."""
# The first process takes the place of parents that have ended, as bash does and sleep does not.
START = r"""
set -e
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
mkdir run/lock
mount --rbind /dev dev
# One of its own shows the links of its own network.
mount -t sysfs sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
for given in "${@:2}"; do
    inside=".${given#*=}"
    mkdir -p "$inside"
    mount --bind "${given%%=*}" "$inside"
done
mkdir -p before
pivot_root . before
umount -l before
rmdir before
touch /ready
while :; do sleep 60; done
"""


class Go(Enum):
    """What a machine has of Go."""

    WITH_CACHES = "this machine's, caches included: all is compiled as on a new one, and sooner"
    EMPTY_CACHES = "this machine's, with caches of its own, which are empty"
    NONE = "nothing"


@dataclass(frozen=True)
class User:
    """Who works on a machine."""

    name: str
    home: str

    def words(self, *command: str) -> list[str]:
        """The command line that runs `command` as this user, where root runs it."""
        if self.name == "root":
            return list(command)
        return ["setpriv", f"--reuid={self.name}", f"--regid={self.name}", "--init-groups", *command]


ROOT = User("root", "/root")


@dataclass(frozen=True)
class Machine:
    """What runs in the namespaces of process `leader`, and reaches others through `link` alone.

    Its files lie in the folder `root` of this machine; others reach it at `address`.
    """

    leader: int
    root: Path
    link: str
    address: str

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

    def forward(self, port: int, address: str) -> None:
        """Have its own `port` lead to `address`, host:port of what this machine reaches, as `ssh -L` would."""
        inside = ("nsenter", f"--target={self.leader}", "--net")
        _run(*inside, "sh", "-c", f"echo 1 >/proc/sys/net/ipv4/conf/{OUTWARD}/route_localnet")
        nat = (*inside, "iptables", "-t", "nat", "-A")
        local = ("-d", "127.0.0.1", "-p", "tcp", "--dport", str(port))
        _run(*nat, "OUTPUT", *local, "-j", "DNAT", "--to-destination", address)
        _run(*nat, "POSTROUTING", "-s", "127.0.0.1", "-o", OUTWARD, "-j", "MASQUERADE")

    def has(self, program: str) -> bool:
        """Whether there is a `program` on its PATH."""
        command = self.words("env", "-i", f"PATH={PATH}", "sh", "-c", f"command -v {program}")
        return subprocess.run(command, capture_output=True).returncode == 0

    def packages(self) -> set[str]:
        """Debian packages that are installed."""
        command = self.words(
            "/usr/bin/dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}${Package}\n"
        )
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return {line[3:] for line in listed.splitlines() if line.startswith("ii")}


@dataclass
class ProjectInside(Project):
    """A clone in the folder `inside` of `machine`, whose commands have a new user's environment."""

    machine: Machine = field(kw_only=True)
    inside: str = field(kw_only=True)
    user: User = field(kw_only=True)
    variables: Sequence[str] = field(kw_only=True)

    def words(self, *command: str) -> list[str]:
        variables = [f"PATH={PATH}", f"HOME={self.user.home}", "LANG=C.UTF-8", *self.variables]
        return self._with(variables, *command)

    def make(self, *arguments: str, timeout: float = HANG_S) -> subprocess.CompletedProcess[str]:
        return super().make(*arguments, timeout=timeout)

    def up(self, *arguments: str, timeout: float = HANG_S) -> dict[str, str]:
        return super().up(*arguments, timeout=timeout)

    def run(
        self, *command: str, check: bool = True, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        variables = [f"{name}={value}" for name, value in self.environment().items()]
        done = subprocess.run(
            self._with(variables, *command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done

    @property
    def has_cluster(self) -> bool:
        return any((self.root / ".trainstack" / "kubeconfig").glob("*"))

    def _with(self, variables: Sequence[str], *command: str) -> list[str]:
        environment = ["env", "-i", f"--chdir={self.inside}", *variables]
        return self.machine.words(*self.user.words(*environment, *command))


@contextmanager
def standing(
    suite: str,
    place: str,
    *,
    go: Go = Go.WITH_CACHES,
    more: Sequence[str] = (),
    user: User = ROOT,
    change: Callable[[Project], None] = lambda _clone: None,
    commit: str = "",
) -> Iterator[ProjectInside]:
    """A machine of Debian's release `suite` with README's prerequisites, and a clone in its folder `place`.

    Everything goes at the end.

    Parameters:
        more: packages of Debian's that it has beside PREREQUISITES.
        user: who works there; one other than root is made, and the clone is theirs.
        change: called with the clone before it is theirs.
        commit: as for `clones.clone`.
    """
    with clones.owned(suite) as folder:
        root = folder / "root"
        _make_root(suite, root, [*PREREQUISITES, *more])
        caches = _go("GOMODCACHE", "GOCACHE") if go is Go.WITH_CACHES else {}
        given = {} if go is Go.NONE else {_go("GOROOT")["GOROOT"]: GO}
        variables = {**caches, **network_variables()}
        with _machine(root, {**given, **{path: path for path in caches.values()}}) as machine:
            if user != ROOT:
                new = ("--create-home", "--home-dir", user.home, "--shell", "/bin/bash", user.name)
                _run(*machine.words("/usr/sbin/useradd", *new))
            made = clones.clone(root / place.lstrip("/"), cluster=folder.name, commit=commit)
            change(made)
            if user != ROOT:
                _run(*machine.words("chown", "--recursive", f"{user.name}:{user.name}", user.home))
            project = ProjectInside(
                made.root,
                made.cluster,
                machine=machine,
                inside=place,
                user=user,
                variables=[f"{name}={value}" for name, value in variables.items()],
            )
            with clones.standing(project):
                yield project


def network_variables() -> dict[str, str]:
    """This machine's variables that tell how registries are reached."""
    return {name: os.environ[name] for name in NETWORK_VARIABLES if name in os.environ}


def _make_root(suite: str, root: Path, wanted: Sequence[str]) -> None:
    if not packages.installed("mmdebstrap"):
        packages.install(["mmdebstrap"])
    options = ["--quiet", "--mode=root", "--variant=minbase", f"--include={','.join(wanted)}"]
    mirror = os.environ.get("TRAINSTACK_DEBIAN_MIRROR")
    _run("mmdebstrap", *options, suite, str(root), *([mirror] if mirror else []))
    # Copies: package ca-certificates, which comes with Debian's python3-venv, writes the bundle anew.
    authorities = sorted(OWN_AUTHORITIES.glob("*.crt"))
    for file in [*map(Path, NETWORK_FILES), *authorities]:
        if file.exists():
            copy = root / file.relative_to("/")
            copy.unlink(missing_ok=True)  # a link would lead out of the root
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    # Debian's installer writes it; minbase has none, and then nothing knows `localhost`.
    (root / "etc" / "hosts").write_text("127.0.0.1\tlocalhost\n::1\tlocalhost\n")
    with (root / BUNDLE.lstrip("/")).open("a") as bundle:
        bundle.writelines(f"{each.read_text().strip()}\n" for each in authorities)


def _go(*names: str) -> dict[str, str]:
    told = subprocess.run(["go", "env", *names], capture_output=True, text=True, check=True).stdout
    return dict(zip(names, told.splitlines(), strict=True))


@contextmanager
def _machine(root: Path, given: dict[str, str]) -> Iterator[Machine]:
    """`given`: folder of this machine -> where it lies in the other."""
    for source in given:
        Path(source).mkdir(parents=True, exist_ok=True)
    namespaces = ["unshare", "--mount", "--net", "--pid", "--fork"]
    mounts = [f"{source}={target}" for source, target in given.items()]
    started = subprocess.Popen(
        [*namespaces, "bash", "-c", START, "bash", str(root), *mounts], stdin=subprocess.DEVNULL
    )
    try:
        wait_until("the machine stands", lambda: started.poll() is not None or (root / READY).exists())
        assert started.poll() is None, f"the machine did not start, status {started.returncode}; see above"
        (leader,) = processes.children(started.pid)
        with _network(leader) as (link, address):
            yield Machine(leader, root, link, address)
    finally:
        # The kernel ends its first process after all others: from then on nothing writes or mounts below `root`.
        for leader in processes.children(started.pid):
            os.kill(leader, signal.SIGKILL)
            started.wait()
        processes.kill(started)


@contextmanager
def _network(leader: int) -> Iterator[tuple[str, str]]:
    """A link between the namespaces of `leader` and this machine, which translates addresses for it.

    Its name here, and its address there.
    """
    forwards = Path("/proc/sys/net/ipv4/ip_forward").read_text().strip() == "1"
    assert forwards, "this machine forwards nothing: its container engine, which has it do so, does not run"
    link = f"ts{leader}"
    network = ipaddress.ip_network((int(NETWORKS.network_address) + leader % 2**14 * 4, 30))
    outside, address = map(str, network.hosts())
    translated = ["POSTROUTING", "-s", address, "-j", "MASQUERADE"]
    inside = ["nsenter", f"--target={leader}", "--net", "ip"]
    _run("ip", "link", "add", link, "type", "veth", "peer", "name", OUTWARD, "netns", str(leader))
    try:
        _run("ip", "address", "add", f"{outside}/30", "dev", link)
        _run("ip", "link", "set", link, "up")
        _run(*inside, "link", "set", "lo", "up")
        _run(*inside, "address", "add", f"{address}/30", "dev", OUTWARD)
        _run(*inside, "link", "set", OUTWARD, "up")
        _run(*inside, "route", "add", "default", "via", outside)
        _run("iptables", "-t", "nat", "-A", *translated)
        for direction in ("-i", "-o"):
            _run("iptables", "-I", "FORWARD", direction, link, "-j", "ACCEPT")
        yield link, address
    finally:
        subprocess.run(["iptables", "-t", "nat", "-D", *translated], check=False)
        for direction in ("-i", "-o"):
            subprocess.run(["iptables", "-D", "FORWARD", direction, link, "-j", "ACCEPT"], check=False)
        subprocess.run(["ip", "link", "delete", link], check=False)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
