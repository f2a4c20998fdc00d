"""The images that kubeadm expects on a node, with kubeadm's names and our own builds of the programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from toolchain.images import base, scratch
from toolchain.machine.engine import Engine
from toolchain.tools.go_modules import CALLED_AS

# kube-proxy calls these programs. The packages are unpacked but not configured, so we make the links of `alternatives`.
PROXY = base.RootFileSystem(
    "base-proxy",
    "bookworm",
    variant="extract",
    include=["iptables", "nftables", "conntrack", "kmod", "libc6"],
    hooks=[
        'for tool in iptables ip6tables; do for form in "" -save -restore; do '
        'ln -sf xtables-nft-multi "$1/usr/sbin/$tool$form"; done; done'
    ],
)

PROGRAMS = dict.fromkeys(CALLED_AS["kubernetes"], "kubernetes") | {
    "etcd": "etcd",
    "coredns": "coredns",
    "pause": "pause",
}
LINES = {
    "etcd": ['ENTRYPOINT ["/usr/local/bin/etcd"]'],
    "coredns": ['ENTRYPOINT ["/usr/local/bin/coredns"]'],
    "pause": ["USER 65535:65535", 'ENTRYPOINT ["/usr/local/bin/pause", "-P"]'],
}
"""Program -> further lines of its image's Dockerfile. Kubernetes' own pods say which program they run."""


def program_of(image: str) -> str:
    """Which program `image`, from kubeadm's list, runs: `registry.k8s.io/coredns/coredns:v1` -> `coredns`."""
    return PROGRAMS[image.rpartition("/")[2].partition(":")[0]]


def ensure(engine: Engine, names: Iterable[str], programs: Mapping[str, Path], log: Path) -> list[str]:
    """Build an image for each program of kubeadm's `names`, which may have several names; returns the names."""
    built: dict[str, str] = {}
    for name in names:
        program = program_of(name)
        if program in built:
            engine.output("tag", built[program], name)
            continue
        files = {f"usr/local/bin/{each}": programs[each] for each in (program, *CALLED_AS.get(program, ()))}
        system = base.ensure(engine, PROXY, log) if program == "kubernetes" else "scratch"
        lines = LINES.get(program, ())
        built[program] = scratch.build(engine, name, files, log, base=system, lines=lines)
    return [*names]
