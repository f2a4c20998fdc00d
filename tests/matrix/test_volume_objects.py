"""Changed keys of the section storage, on a real API server: one `pulumi up` each, and back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.matrix.project import AppliedProject

VOLUME, CLAIM = "PersistentVolume/trainstack-matrix-models", "PersistentVolumeClaim/trainstack-matrix-models"
JOB = "PyTorchJob/mnist"


def assert_settled(project: AppliedProject) -> None:
    """Nothing is on its way out, and volume and claim are bound to each other."""
    found = project.objects()
    assert not [name for name, each in found.items() if "deletionTimestamp" in each["metadata"]]
    phases = {name: each["status"]["phase"] for name, each in found.items() if name.startswith("Persistent")}
    assert set(phases.values()) == {"Bound"}, phases


@pytest.mark.parametrize(
    ("changes", "replaced"),
    [
        ({"labels": {"team": "a"}}, False),
        ({"capacity": "12Gi"}, False),
        ({"request": "5Gi"}, True),
        ({"accessMode": "ReadWriteOnce"}, True),
        ({"storageClass": "other"}, True),
        ({"labels": {"type": "vision"}}, True),
        ({"hostPath": "/var/lib/trainstack/other"}, True),
        ({"node": "node"}, True),
    ],
    ids=str,
)
def test_one_update_converges_and_so_does_the_way_back(
    project: AppliedProject, changes: dict[str, Any], replaced: bool
) -> None:
    before = project.uids()
    project.up("--refresh", storage=changes)
    assert_settled(project)
    after = project.uids()
    assert {VOLUME, CLAIM, JOB} <= set(after)
    assert (after[VOLUME] != before[VOLUME]) is replaced
    assert (after[CLAIM] != before[CLAIM]) is replaced
    project.up("--refresh", "--expect-no-changes", storage=changes)
    assert project.uids() == after
    project.up()
    assert_settled(project)
    assert set(project.uids()) == set(before)
