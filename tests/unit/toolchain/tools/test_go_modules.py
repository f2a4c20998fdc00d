"""The pinned Go modules are the one place that names versions."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from toolchain.paths import TOOL_MODULES
from toolchain.steps import SetupError
from toolchain.tools import go_modules

PROGRAMS = {
    "pulumi": {"pulumi"},
    "kind": {"kind"},
    "registry": {"registry"},
    "kubeconform": {"kubeconform"},
    "local-path-provisioner": {"local-path-provisioner"},
    "actionlint": {"actionlint"},
    "kwok": {"kwok"},
    "training-operator": {"training-operator.v1"},
    "trainer-controller": {"trainer-controller-manager"},
    "jobset-controller": {"jobset"},
    "kueue": {"kueue"},
    "kubernetes": {"kubernetes", "kubectl", "etcd", "coredns"},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_module_names_its_programs_and_its_version(name: str) -> None:
    module = go_modules.load(name)
    assert {go_modules.binary(package) for package in module.packages} == PROGRAMS[name]
    assert module.version[0].isdigit()
    pinned = (TOOL_MODULES / name / "go.mod").read_text()
    assert re.search(rf" v{re.escape(module.version)}( |$)", pinned, re.MULTILINE)


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


OWN = sorted(file.relative_to(TOOL_MODULES).as_posix() for file in TOOL_MODULES.rglob("*.go"))
MODULES = sorted({file.partition("/")[0] for file in OWN})
ALONE = [
    name for name in MODULES if not re.search("^tool ", (TOOL_MODULES / name / "go.mod").read_text(), re.M)
]
"""Modules of our own programs that name no tools beside them."""


@pytest.mark.parametrize("file", OWN)
def test_a_program_of_ours_is_built_anew_when_it_changes(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = file.partition("/")[0]
    before = go_modules.load(name)
    shutil.copytree(TOOL_MODULES / name, tmp_path / name)
    monkeypatch.setattr(go_modules, "TOOL_MODULES", tmp_path)
    assert go_modules.load(name) == before
    with (tmp_path / file).open("a") as program:
        program.write("// changed\n")
    assert go_modules.load(name).folder(before.packages) != before.folder(before.packages)


@pytest.mark.parametrize("name", ALONE)
def test_a_program_of_ours_has_the_version_of_the_one_module_that_it_is_made_of(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(TOOL_MODULES / name, tmp_path / name)
    monkeypatch.setattr(go_modules, "TOOL_MODULES", tmp_path)
    with (tmp_path / name / "go.mod").open("a") as pins:
        pins.write("\nrequire example.org/another v1.2.3\n")
    with pytest.raises(SetupError, match="restore that file from Git"):
        go_modules.load(name)


def test_programs_of_ours_hold_what_clusters_ask_for_and_no_clouds() -> None:
    assert ALONE == ["registry"]
    assert MODULES == ["kubernetes", "registry"]
    for name in MODULES:
        pins = (TOOL_MODULES / name / "go.mod").read_text()
        assert not re.search("aws|azure|cloud.google.com/go/storage", pins), (
            f"{name} brings a cloud's libraries"
        )


@pytest.mark.parametrize("name", go_modules.CALLED_AS)
def test_a_file_that_is_several_programs_knows_the_names_of_its_links(name: str) -> None:
    source = (TOOL_MODULES / name / "main.go").read_text()
    assert {*re.findall(r'"(kube[a-z-]*)"(?::| \{)', source)} == {*go_modules.CALLED_AS[name]}
