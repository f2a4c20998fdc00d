"""The pinned Go modules: what each builds, and the name of its cache folder.

A module's version, packages and checksums come from its go.mod and go.sum. There is no second list.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from toolchain.paths import TOOL_MODULES
from toolchain.steps import SetupError

_TOOL = re.compile(r"^(?:tool\s+|\t)(\S+/\S+)$", re.MULTILINE)
_DIRECT = re.compile(r"^(?:require )?\s*\S+ (v\S+)$", re.MULTILINE)
_MAJOR = re.compile(r"/v\d+$")
_OWN = "trainstack/tools"
"""The path of our modules: the module in the folder `kind` is trainstack/tools/kind."""

# Without these linker flags, Kubernetes and Pulumi print "v0.0.0" or "dev" as their version. Both compare versions with
# their peers.
_STAMPS = {
    "pulumi": "-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v{version}",
    "kubernetes": " ".join(
        f"-X k8s.io/{package}/version.{name}"
        for package in ("component-base", "client-go/pkg")
        for name in ("gitVersion=v{version}", "gitMajor={major}", "gitMinor={minor}", "gitTreeState=clean")
    ),
}

CALLED_AS = {
    "kubernetes": (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubeadm",
        "kubelet",
    )
}
"""Binary that is several programs -> the names by which it is called, each a link beside it."""


@dataclass(frozen=True)
class Module:
    """One folder of toolchain/tools/go."""

    name: str
    version: str
    packages: tuple[str, ...]
    digest: str

    @property
    def ldflags(self) -> str:
        major, minor = self.version.split(".")[:2]
        stamp = _STAMPS.get(self.name, "").format(version=self.version, major=major, minor=minor)
        return f"-s -w {stamp}"

    def folder(self, packages: tuple[str, ...]) -> str:
        """The cache folder's name. It changes with version, checksums, flags or packages."""
        key = hashlib.sha256("\0".join([self.digest, self.ldflags, *packages]).encode()).hexdigest()
        return f"{self.name}-{self.version}-{key[:12]}"

    def packages_for(self, *binaries: str) -> tuple[str, ...]:
        """The packages that build `binaries`."""
        return tuple(package for package in self.packages if binary(package) in binaries)


def binary(package: str) -> str:
    """The file name of the program that `package` builds: Go takes the last part of its path."""
    return _MAJOR.sub("", package).rpartition("/")[2]


def load(name: str) -> Module:
    """Read toolchain/tools/go/<name>; raises SetupError if the module does not pin what it builds.

    A folder builds the programs of its own Go files, one a folder, and the packages that its go.mod names as tools. It
    has the version of the module that provides the tools; without tools, of the only module that its go.mod requires
    directly.
    """
    folder = TOOL_MODULES / name
    mod, programs = (folder / "go.mod").read_text(), sorted(folder.rglob("*.go"))
    tools = tuple(_tool_lines(mod))
    own = sorted({file.parent.relative_to(folder.parent).as_posix() for file in programs})
    packages = (*(f"{_OWN}/{each}" for each in own), *tools)
    version = _providing(mod, tools) if tools else _directly_required(mod)
    if version is None:
        raise SetupError(
            f"{folder / 'go.mod'} requires no module that provides {packages}",
            "restore that file from Git",
        )
    sources = b"".join(file.read_bytes() for file in (folder / "go.sum", *programs))
    return Module(name, version.lstrip("v"), packages, hashlib.sha256(mod.encode() + sources).hexdigest())


def _directly_required(mod: str) -> str | None:
    """The version of the only module that is required directly; None if there are several."""
    found = _DIRECT.findall(mod)
    return found[0] if len(found) == 1 else None


def _providing(mod: str, packages: tuple[str, ...]) -> str | None:
    """The version of the required module that contains all `packages`."""
    required = (line.split() for line in mod.splitlines() if line.startswith("\t"))
    holding = (words[1] for words in required if len(words) >= 2 and _all_inside(packages, words[0]))
    return next(holding, None)


def _tool_lines(mod: str) -> list[str]:
    block = re.search(r"^tool \((.*?)^\)", mod, re.MULTILINE | re.DOTALL)
    return _TOOL.findall(block.group(1)) if block else re.findall(r"^tool (\S+)$", mod, re.MULTILINE)


def _all_inside(packages: tuple[str, ...], module: str) -> bool:
    return all(package == module or package.startswith(f"{module}/") for package in packages)
