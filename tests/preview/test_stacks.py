"""The committed stacks preview before their clusters are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import dataset
from infra.cluster_kinds import ClusterKind
from infra.config import Stack, from_file
from infra.image.component import rendered_reference
from infra.job.context import context
from infra.job.manifest import manifest
from infra.objects.labels import OWNER
from infra.objects.owner import marked
from tests.preview.project import ABSENT, ROOT, Project

STACKS = sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))
OPERATOR = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
JOB = "kubernetes:kubeflow.org/v1:PyTorchJob"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("file", STACKS, ids=lambda file: file.stem.removeprefix("Pulumi."))
def test_previews_without_its_cluster(tmp_path: Path, file: Path) -> None:
    project = Project(tmp_path, file.stem.removeprefix("Pulumi."))
    project.configure(without_its_cluster(file))
    found = project.preview()
    assert found.status == 0, found.shown
    assert found.registered.count(JOB) == 1
    # Nothing is taken to be in a cluster that cannot be asked.
    assert OPERATOR in found.registered
    assert project.state() == []
    # The image is not built yet: it alone is unknown of a job.
    previewed = [inputs for type_, inputs in found.inputs if type_ == JOB]
    assert [said(job) for job in previewed] == [said(job) for job in reviewed(from_file(file))]


def without_its_cluster(file: Path) -> dict[str, Any]:
    """The sections of a stack file; a kind cluster has a name under which none stands."""
    config = yaml.safe_load(file.read_text())["config"]
    sections = {name.removeprefix("trainstack:"): section for name, section in config.items()}
    if from_file(file).cluster.kind is ClusterKind.KIND:
        sections["cluster"] = {**sections.get("cluster", {}), "name": ABSENT}
    return sections


def reviewed(stack: Stack) -> list[dict[str, Any]]:
    """The jobs as a review of this machine shows them."""
    chosen = dataset.of_jobs(stack)
    image = rendered_reference(stack)
    made = [manifest(job, context(stack, image, chosen[job.name])) for job in stack.jobs]
    return [{**each, "metadata": marked(each["metadata"], stack.name, "unknown")} for each in made]


def said(job: dict[str, Any]) -> tuple[Any, ...]:
    """A job's labels with its run's id, its annotations, and each replica type's command and variables."""
    containers = [
        replica["template"]["spec"]["containers"][0]
        for replica in job["spec"]["pytorchReplicaSpecs"].values()
    ]
    words = [(each.get("command"), each.get("args"), each["env"]) for each in containers]
    metadata = job["metadata"]
    # A stack that was never up has no id yet.
    labels = {key: value for key, value in metadata["labels"].items() if key != OWNER}
    return {**metadata, "labels": labels}, words
