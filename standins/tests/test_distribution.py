"""The distribution by itself: what it imports, and that an installation from its folder serves a program."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi_standins import emulated

from standins.tests.project import Project

DISTRIBUTION = Path(__file__).resolve().parents[1]
PACKAGE = DISTRIBUTION / "pulumi_standins"
SETTINGS = tomllib.loads((DISTRIBUTION / "pyproject.toml").read_text())
# How the packages that pyproject.toml names are imported, and what comes with them.
IMPORTED_AS = {
    "jsonpath-rfc9535": {"jsonpath_rfc9535"},
    "pyyaml": {"yaml"},
    "pulumi": {"pulumi", "grpc", "google"},
}

PROGRAM = """
import pulumi, pulumi_kubernetes as k8s
o = pulumi.ResourceOptions(provider=k8s.Provider("cluster", kubeconfig="kubeconfig.yaml"))
made = k8s.core.v1.ConfigMap("it", metadata={"namespace": "NAMESPACE"}, data={"a": "1"}, opts=o)
pulumi.export("name", made.metadata.name)
"""


def imports(folder: Path) -> Iterator[tuple[Path, str]]:
    """The top packages that the modules below a folder import, each with its file."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name.partition(".")[0]) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield path, str(node.module).partition(".")[0]


def test_the_distribution_imports_itself_and_what_it_declares() -> None:
    declared = {requirement.partition(">")[0] for requirement in SETTINGS["project"]["dependencies"]}
    allowed = {"pulumi_standins", *sys.stdlib_module_names}
    for name in declared:
        allowed |= IMPORTED_AS.get(name, {name})
    undeclared = [f"{path}: {name}" for path, name in imports(PACKAGE) if name not in allowed]
    assert not undeclared


def test_nothing_beside_the_distribution_imports_it() -> None:
    """Its own tests and the benchmark that measures it do, and nothing else."""
    repository = DISTRIBUTION.parent
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=repository, capture_output=True, text=True, check=True
    ).stdout.split()
    folders = {name.partition("/")[0] for name in listed if "/" in name} - {DISTRIBUTION.name, "tests"}
    assert len(folders) > 3, "the list of files is the repository's"
    found = [f"{path}: {name}" for folder in folders for path, name in imports(repository / folder)]
    assert not [line for line in found if line.endswith((": pulumi_standins", ": standins"))]


def test_the_emulated_plugin_is_the_one_of_the_installed_sdk() -> None:
    assert importlib.metadata.version("pulumi-kubernetes") == emulated.KUBERNETES_PLUGIN
    assert f"pulumi-kubernetes=={emulated.KUBERNETES_PLUGIN}" in SETTINGS["dependency-groups"]["dev"]


def test_every_program_on_path_has_an_entry_point() -> None:
    assert {path.name for path in (PACKAGE / "bin").iterdir()} == set(SETTINGS["project"]["scripts"])


@pytest.mark.parametrize("page", ["README.md", "docs/behaviour.md"])
def test_every_path_in_the_pages_is_there(page: str) -> None:
    """Modules may be named without the folder that their table names; tests without their suffix."""
    quoted = set(re.findall(r"`([^`\s]+)`", (DISTRIBUTION / page).read_text()))
    paths = {text for text in quoted if re.fullmatch(r"[\w./-]*(/|\.py|\.md|\.go|\.json)", text)} - {
        "standins/"
    }
    paths |= {f"tests/{text}.py" for text in quoted if re.fullmatch(r"test_[a-z_]+", text)}
    assert len(paths) > 1
    bases = [DISTRIBUTION, DISTRIBUTION.parent, PACKAGE / "kubernetes", DISTRIBUTION / "tests", Path("/")]
    assert not [path for path in paths if not any((base / path.lstrip("/")).exists() for base in bases)]


def install(environment: Path, *requirements: str) -> None:
    """Install into a new virtual environment: with uv, whose cache may have all of it, else with pip."""
    python = environment / "bin" / "python"
    if uv := shutil.which("uv"):
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
        command = [uv, "pip", "install", "--quiet", "--python", str(python)]
    else:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    done = subprocess.run([*command, *requirements], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.apiserver
def test_an_installation_serves_a_program(project: Project, namespace: str, tmp_path: Path) -> None:
    """A copy is installed, so that building leaves nothing in the sources and nothing is taken from them."""
    source = tmp_path / "standins"
    shutil.copytree(DISTRIBUTION, source, ignore=shutil.ignore_patterns("tests", "__pycache__", "*.egg-info"))
    environment = tmp_path / "environment"
    versions = [
        f"{name}=={importlib.metadata.version(name)}"
        for name in ("pulumi", "pulumi-kubernetes", "kubernetes", "grpcio", "protobuf", "urllib3")
    ]
    install(environment, str(source), *versions)
    shutil.rmtree(source)

    here = str(PACKAGE / "bin")
    others = [folder for folder in project.environment["PATH"].split(os.pathsep) if folder != here]
    project.environment["PATH"] = os.pathsep.join([str(environment / "bin"), *others])
    del project.environment["PULUMI_STANDINS_PYTHON"]
    project.use_virtualenv(environment)
    project.write(PROGRAM.replace("NAMESPACE", namespace))
    assert "+ 3 created" in project.up()
    assert project.state()["it"]["id"].startswith(f"{namespace}/it-")
    assert str(environment) in project.pulumi("about")
    assert "- 3 deleted" in project.destroy()
