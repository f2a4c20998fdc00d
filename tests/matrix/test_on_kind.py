"""Keys that need nodes, an image or another cluster, changed one after the other on one running kind stack."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from infra.config.changes import Outcome, outcome
from tests.e2e import clones
from tests.e2e.project import Project
from tests.matrix.entries import OBJECTS, ON_KIND, Entry
from tests.matrix.project import set_key

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow(reason="four runs of make up for each key, a cluster for some"),
]
# What the API server's matrix has tried without a kubelet, once more with finished pods on a real volume.
ALSO_HERE = ("storage.labels", "storage.request", "storage.owner", "storage.mountPath")
ENTRIES = {**{key: Entry(OBJECTS[key].value) for key in ALSO_HERE}, **ON_KIND}


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    with clones.temporary("matrix") as clone:
        clone.up()
        yield clone


def configured(clone: Project, keys: dict[str, Any]) -> None:
    """Write the stack file with `keys`, path to value, beside its own."""
    settings = yaml.safe_load(clone.stack_file.read_text())
    for path, value in keys.items():
        section, _, rest = path.partition(".")
        set_key(settings["config"].setdefault(f"trainstack:{section}", {}), rest.split("."), value)
    clone.stack_file.write_text(yaml.safe_dump(settings, sort_keys=False))


def seen(clone: Project) -> dict[str, str]:
    """Uids of cluster, volume, claim and job, and the SHA-256 of the model."""
    name = f"trainstack-{clone.stack}-models"
    cluster = clone.get("namespace", "kube-system")
    found = {"cluster": cluster, "volume": clone.get("pv", name), "claim": clone.get("pvc", name)}
    found["job"] = clone.get("pytorchjob", "pytorch-simple")
    uids = {kind: str(each["metadata"]["uid"]) for kind, each in found.items()}
    model = clone.models / "mnist_cnn.pt"
    return {**uids, "model": hashlib.sha256(model.read_bytes()).hexdigest()}


def outcome_of(before: dict[str, str], after: dict[str, str]) -> Outcome:
    for kind, replaced in (
        ("cluster", Outcome.CLUSTER_REPLACED),
        ("volume", Outcome.VOLUME_REPLACED),
        ("job", Outcome.JOB_REPLACED),
    ):
        if before[kind] != after[kind]:
            return replaced
    return Outcome.IN_PLACE


@pytest.mark.parametrize(("key", "entry"), ENTRIES.items(), ids=list(ENTRIES))
def test_changes_as_its_rule_says_and_back(project: Project, key: str, entry: Entry) -> None:
    original = project.stack_file.read_text()
    expected = outcome(key)
    allowed = ["REPLACE_CLUSTER=yes"] if Outcome.CLUSTER_REPLACED in (expected, *_given(entry)) else []
    configured(project, entry.given)
    project.up(*allowed)
    before = seen(project)
    configured(project, {**entry.given, key: copy.deepcopy(entry.value)})
    project.up(*allowed)
    after = seen(project)
    assert outcome_of(before, after) is expected
    assert after["model"] == before["model"] or expected is Outcome.JOB_REPLACED
    project.up()
    assert seen(project) == after, "a second run changes nothing"
    project.stack_file.write_text(original)
    project.up(*allowed)


def _given(entry: Entry) -> list[Outcome]:
    return [outcome(key) for key in entry.given]
