"""Every key that an API server without nodes can try: `pulumi up` for its second value, again, and the way back."""

from __future__ import annotations

from typing import Any

import pytest

from infra.cluster_kinds import ClusterKind
from infra.config.changes import outcome
from infra.config.section import Outcome
from tests.matrix.entries import OBJECTS, Entry
from tests.matrix.judging import Objects, assert_as_expected, folders, identities, job_specs, lasting
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
ANOTHER_FOLDER = ("storage.hostPath", "storage.volume", "storage.kind")
SLOW = pytest.mark.slow(
    reason="two or three updates for each of 80 keys; make test tries one key of each outcome"
)
KEYS = [
    pytest.param(key, entry, id=key, marks=() if key in QUICK else SLOW) for key, entry in OBJECTS.items()
]


@pytest.mark.parametrize(("key", "entry"), KEYS)
def test_changes_as_its_rule_says_and_back(project: AppliedProject, key: str, entry: Entry) -> None:
    expected = outcome(key, ClusterKind.EXISTING)
    before = begin(project, expected, entry)
    if expected is Outcome.REFUSED:
        assert_refused(project, key, entry, before)
        return
    changed = entry.applied(key)
    project.up(*(["--expect-no-changes"] if expected is Outcome.NOTHING else []), **changed)
    after = project.settled()
    assert_as_expected(expected, before, after)
    assert_outputs_name(project, after)
    assert folders(before) <= folders(after) or key in ANOTHER_FOLDER
    assert job_specs(after) == project.job_specs(**changed)
    if expected is not Outcome.NOTHING:
        project.up("--expect-no-changes", **changed)
        assert identities(project.settled()) == identities(after)
    if expected is Outcome.JOB_REPLACED:
        assert project.job_specs(**changed) != project.job_specs(**entry.given)
        project.is_chained = True
        return
    project.up(**entry.given)
    back = project.settled()
    assert lasting(back) == lasting(before)
    assert_as_expected(expected, back, after)
    assert_outputs_name(project, back)


def begin(project: AppliedProject, expected: Outcome, entry: Entry) -> Objects:
    """The objects before the change.

    Keys that make a new job follow one another: the way back of one is part of the change to the next. The job's whole
    spec shows that both have been done, the fixture's end that the last one goes back.
    """
    if not (project.is_chained and expected is Outcome.JOB_REPLACED):
        project.stand(**entry.given)
    return project.settled()


def assert_refused(project: AppliedProject, key: str, entry: Entry, before: Objects) -> None:
    """With the reason and the way, and before anything is touched."""
    with pytest.raises(UpError, match=rf"(?s)(trainstack:{key} = |policy: ).*fix: "):
        project.up(**entry.applied(key))
    assert identities(project.objects()) == identities(before)
    project.up("--expect-no-changes", **entry.given)


def assert_outputs_name(project: AppliedProject, found: Objects) -> None:
    """The outputs are about the jobs that are there. Models are judged where there are nodes: test_on_kind.py."""
    outputs: dict[str, Any] = project.outputs()
    states = {name: job["jobStatus"] for name, job in outputs["jobs"].items()}
    told = {f"PyTorchJob/{outputs['namespace']}/{name}": state for name, state in states.items()}
    there = {
        key: each["status"]["conditions"][-1]["type"]
        for key, each in found.items()
        if each["kind"] == "PyTorchJob"
    }
    assert told == there
