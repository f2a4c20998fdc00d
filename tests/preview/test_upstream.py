"""The manifests below infra/upstream/ are upstream's: byte for byte what the pinned Go modules yield.

After another version of a tool is pinned, the same writes them again:

    WRITE_UPSTREAM=1 .venv/bin/python -m pytest -q tests/preview/test_upstream.py

It takes Go, or what an earlier run has kept of the modules, and the kubectl of `make env`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from infra.objects.job_kinds import PYTORCHJOB
from infra.objects.labels import VERSION
from infra.review import gitops
from infra.training_operator.patches import CRD_KIND
from infra.upstream import vendored
from toolchain.tools import build, go_modules

WRITE = "WRITE_UPSTREAM"
DOCUMENTS = re.compile(r"^---\n", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """Where a project's manifests are.

    Parameters:
        tool: the folder of toolchain/tools/go that pins the version.
        module: the Go module that has them.
        folder: the module's folder that has all of them.
        kustomizations: below `folder`.
        whole: whether each definition is kept; of the training-operator's, that of PyTorchJobs is.
    """

    tool: str
    module: str
    folder: str
    kustomizations: tuple[str, ...]
    whole: bool = True

    def fetched(self) -> Path:
        """The folder, from the module."""
        return build.source(self.tool, self.module, self.folder)


SOURCES = {
    "training-operator": Source(
        *("training-operator", "github.com/kubeflow/training-operator", "manifests"),
        kustomizations=("overlays/standalone",),
        whole=False,
    ),
    "trainer": Source(
        *("trainer-controller", "github.com/kubeflow/trainer/v2", "manifests"),
        kustomizations=("base/crds", "base/manager", "base/rbac", "base/webhook"),
    ),
    "jobset": Source("jobset-controller", "sigs.k8s.io/jobset", "config", kustomizations=("default",)),
    "kueue": Source("kueue", "sigs.k8s.io/kueue", "config", kustomizations=("default",)),
}


def yielded(project: str) -> dict[str, str]:
    """File's name below the project's folder -> the text that the module yields."""
    source = SOURCES[project]
    root = source.fetched()
    texts = [built(root / each) for each in source.kustomizations]
    documents = [each for text in texts for each in DOCUMENTS.split(text) if each.strip()]
    definitions, rest = {}, []
    for document in documents:
        found = yaml.load(document, yaml.CSafeLoader)
        if found["kind"] != CRD_KIND:
            rest.append(document)
        elif source.whole or found["metadata"]["name"] == PYTORCHJOB.crd:
            definitions[f"{vendored.DEFINITIONS}/{found['metadata']['name']}.yaml"] = document
    files = {vendored.REST: "---\n".join(rest), **definitions}
    version = {VERSION: f"v{go_modules.load(source.tool).version}"}
    files[gitops.KUSTOMIZATION] = gitops.kustomization(sorted(definitions), labels=[{"pairs": version}])
    return files


def built(folder: Path) -> str:
    """What kubectl makes of a kustomization."""
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(project: str, files: dict[str, str]) -> None:
    """Put `files` in place of what is there."""
    shutil.rmtree(vendored.folder(project))
    for name, text in files.items():
        file = vendored.FOLDER / f"{project}-{go_modules.load(SOURCES[project].tool).version}" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.parametrize("project", SOURCES)
def test_what_is_vendored_is_upstreams(project: str) -> None:
    expected = yielded(project)
    if os.environ.get(WRITE):
        write(project, expected)
    folder = vendored.folder(project)
    there = {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*.yaml")}
    assert there.keys() == expected.keys()
    assert [name for name in expected if there[name] != expected[name]] == []
    assert vendored.version(project) == f"v{go_modules.load(SOURCES[project].tool).version}"


def test_each_project_has_a_source() -> None:
    folders = [each.name for each in vendored.FOLDER.iterdir() if (each / vendored.REST).exists()]
    assert sorted(folders) == sorted(vendored.folder(project).name for project in SOURCES)
