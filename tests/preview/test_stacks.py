"""The committed stacks preview before their clusters are there."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.preview.project import ROOT, Project

STACKS = sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))
OPERATOR = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
JOB = "kubernetes:kubeflow.org/v1:PyTorchJob"


@pytest.mark.parametrize("file", STACKS, ids=lambda file: file.stem.removeprefix("Pulumi."))
def test_previews_without_its_cluster(tmp_path: Path, file: Path) -> None:
    project = Project(tmp_path, file.stem.removeprefix("Pulumi."))
    config = yaml.safe_load(file.read_text())["config"]
    project.configure({name.removeprefix("trainstack:"): section for name, section in config.items()})
    found = project.preview()
    assert found.status == 0, found.shown
    assert found.registered.count(JOB) == 1
    # Nothing is taken to be in a cluster that cannot be asked.
    assert OPERATOR in found.registered
    assert project.state() == []


def test_there_are_five() -> None:
    assert {file.stem.removeprefix("Pulumi.") for file in STACKS} >= {
        "dev",
        "microk8s",
        "gpu",
        "nccl",
        "existing",
    }
