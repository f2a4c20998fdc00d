"""The images that kubeadm expects on a node, with kubeadm's names and our own builds of the programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from toolchain.images import base, scratch
from toolchain.machine.engine import Engine

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

PROGRAMS = {
    "kube-apiserver": "kube-apiserver",
    "kube-controller-manager": "kube-controller-manager",
    "kube-scheduler": "kube-scheduler",
    "kube-proxy": "kube-proxy",
    "etcd": "etcd",
    "coredns": "coredns",
    "pause": "pause",
}


def program_of(image: str) -> str:
    """Which program `image`, from kubeadm's list, runs: `registry.k8s.io/coredns/coredns:v1` -> `coredns`."""
    return PROGRAMS[image.rpartition("/")[2].partition(":")[0]]


def ensure(engine: Engine, names: Iterable[str], programs: Mapping[str, Path], log: Path) -> list[str]:
    """Build an image for each of kubeadm's `names`; returns the names."""
    built = []
    for name in names:
        program = program_of(name)
        target = {f"usr/local/bin/{program}": programs[program]}
        if program == "kube-proxy":
            scratch.build(engine, name, target, log, base=base.ensure(engine, PROXY, log))
        elif program == "pause":
            start = 'ENTRYPOINT ["/usr/local/bin/pause", "-P"]'
            scratch.build(engine, name, target, log, lines=["USER 65535:65535", start])
        else:
            scratch.build(engine, name, target, log, lines=[f'ENTRYPOINT ["/usr/local/bin/{program}"]'])
        built.append(name)
    return built
