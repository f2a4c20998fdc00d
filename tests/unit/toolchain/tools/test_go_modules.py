"""The pinned Go modules are the one place that names versions."""

from __future__ import annotations

import pytest

from toolchain.paths import TOOL_MODULES
from toolchain.tools import go_modules

PROGRAMS = {
    "pulumi": {"pulumi"},
    "kind": {"kind"},
    "etcd": {"etcd"},
    "coredns": {"coredns"},
    "registry": {"registry"},
    "kubeconform": {"kubeconform"},
    "actionlint": {"actionlint"},
    "training-operator": {"training-operator.v1"},
    "trainer-controller": {"trainer-controller-manager"},
    "jobset-controller": {"jobset"},
    "kubernetes": {
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-proxy",
        "kubelet",
        "kubeadm",
        "kubectl",
    },
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_module_names_its_programs_and_its_version(name: str) -> None:
    module = go_modules.load(name)
    assert {go_modules.binary(package) for package in module.packages} == PROGRAMS[name]
    assert module.version[0].isdigit()
    assert f" v{module.version} " in (TOOL_MODULES / name / "go.mod").read_text()


def test_kubernetes_is_told_its_version_by_the_linker() -> None:
    module = go_modules.load("kubernetes")
    minor = module.version.split(".")[1]
    assert f"version.gitVersion=v{module.version}" in module.ldflags
    assert f"gitMinor={minor}" in module.ldflags


def test_a_cache_folder_changes_with_checksums_flags_and_packages() -> None:
    module = go_modules.load("kubernetes")
    other = go_modules.Module(module.name, module.version, module.packages, "other digest")
    newer = go_modules.Module(module.name, "1.34.99", module.packages, module.digest)
    names = {
        module.folder(module.packages),
        module.folder(module.packages_for("kubectl")),
        other.folder(module.packages),
        newer.folder(module.packages),
    }
    assert len(names) == 4


def test_only_the_named_programs_are_picked() -> None:
    assert go_modules.load("kubernetes").packages_for("kubectl") == ("k8s.io/kubernetes/cmd/kubectl",)
