"""Every key that an API server without nodes can try: one `pulumi up` for its second value, one for the way back."""

from __future__ import annotations

from typing import Any

import pytest

from infra.config.changes import Outcome, outcome
from infra.config.cluster import ClusterKind
from tests.matrix.entries import OBJECTS, Entry
from tests.matrix.project import AppliedProject, UpError

# One key of each outcome, and those whose mechanism is their own.
QUICK = {
    "cluster.namespace",
    "storage.labels",
    "storage.request",
    "storage.reclaimPolicy",
    "storage.mountPath",
    "job.runPolicy.suspend",
}
SLOW = pytest.mark.slow(reason="four updates for each of 70 keys; make test tries one key of each outcome")
KEYS = [
    pytest.param(key, entry, id=key, marks=() if key in QUICK else SLOW) for key, entry in OBJECTS.items()
]


@pytest.mark.parametrize(("key", "entry"), KEYS)
def test_changes_as_its_rule_says_and_back(project: AppliedProject, key: str, entry: Entry) -> None:
    project.up("--refresh", **entry.given)
    before = project.objects()
    changed = {**entry.given, whole(key): entry.value}
    expected = outcome(key, ClusterKind.EXISTING)
    if expected is Outcome.REFUSED:
        with pytest.raises(UpError, match=f"trainstack:{key} = |policy: "):
            project.up("--refresh", **changed)
        assert uids(project.objects()) == uids(before)
        return
    project.up("--refresh", **changed)
    after = project.objects()
    assert_settled(after)
    assert outcome_of(before, after) is expected or expected is Outcome.NOTHING
    assert (uids(after) == uids(before)) is (expected in (Outcome.NOTHING, Outcome.IN_PLACE))
    project.up("--refresh", "--expect-no-changes", **changed)
    assert uids(project.objects()) == uids(after)
    project.up(**entry.given)
    assert_settled(project.objects())
    assert project.objects().keys() == before.keys()


def whole(key: str) -> str:
    """The key that a stack file sets: of a list of mappings the list."""
    outer = key.rpartition(".")[0]
    return outer if outer in ("job.tolerations", "job.envFrom") else key


def assert_settled(found: dict[str, dict[str, Any]]) -> None:
    """Nothing is on its way out, and volume and claim are bound to each other."""
    assert not [name for name, each in found.items() if "deletionTimestamp" in each["metadata"]]
    phases = {name: each["status"]["phase"] for name, each in found.items() if name.startswith("Persistent")}
    assert phases
    assert set(phases.values()) == {"Bound"}, phases


def uids(found: dict[str, dict[str, Any]]) -> set[str]:
    return {str(each["metadata"]["uid"]) for each in found.values()}


def outcome_of(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> Outcome:
    """What has happened, by the uids of the models' volume, its claim and the job."""
    kinds = ("PersistentVolumeClaim", "PersistentVolume", "PyTorchJob")
    kept = {
        kind: {
            uid(each) for name, each in before.items() if name.startswith(f"{kind}/") and "-data" not in name
        }
        <= {uid(each) for each in after.values()}
        for kind in kinds
    }
    if not kept["PersistentVolume"] or not kept["PersistentVolumeClaim"]:
        return Outcome.VOLUME_REPLACED
    return Outcome.IN_PLACE if kept["PyTorchJob"] else Outcome.JOB_REPLACED


def uid(each: dict[str, Any]) -> str:
    return str(each["metadata"]["uid"])
