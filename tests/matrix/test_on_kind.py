"""Keys that need nodes, an image or another cluster, changed one after the other on one running kind stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from infra import stack_plan, volumes
from infra.cluster_kinds import ClusterKind
from infra.config import changes
from infra.config.changes import outcome
from infra.config.load import from_raw
from infra.config.section import Outcome
from infra.job import pod
from infra.job.context import context
from storage.manifests import manifests
from tests.e2e import clones
from tests.matrix.entries import OBJECTS, ON_KIND, Entry
from tests.matrix.judging import assert_as_expected, uids
from tests.matrix.kind_project import UNCHANGED, KindProject, closed_to_the_group
from tests.matrix.project import with_changes

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow(reason="two or three runs of make up for each key, another cluster for some"),
]


def on_the_volume(sections: dict[str, Any]) -> set[str]:
    """Where the models' files are with `sections`, where and as whom pods write them, and who prepares the folder."""
    stack = from_raw("matrix", with_changes(sections), "matrix.yaml")
    prepared = stack_plan.preparation(stack, "image")["spec"] if stack.storage.prepares else None
    found = {str(prepared), *(str(each["spec"].get("hostPath")) for each in manifests(volumes.models(stack)))}
    for job in stack.jobs:
        spec = pod.template(job, context(stack, "image", None), "master")["spec"]
        (claim,) = (each for each in spec["volumes"] if each["name"] == "models")
        (container,) = spec["containers"]
        (mount,) = (each for each in container["volumeMounts"] if each["name"] == "models")
        found.add(str([spec["securityContext"], claim, mount["mountPath"]]))
    return found


# Their change leads to other files, or to other users of the same: what was written must be writable afterwards.
DECIDE = [
    key for key, each in OBJECTS.items() if on_the_volume(each.applied(key)) != on_the_volume(each.given)
]
NO_CLIENT = ("storage.kind", "storage.nfsServer", "storage.nfsPath")
"""kind's nodes have no NFS client: tests/e2e/test_nfs.py and tests/matrix/test_storage_kinds.py."""
# What the API server's matrix has tried without a kubelet, once more with finished pods on a real volume.
ALSO_HERE = (
    *changes.ON_KIND,  # their rule differs
    *(key for key in DECIDE if key not in NO_CLIENT),
    "storage.labels",
    "storage.request",
    "cluster.namespace",
    "job.runPolicy.suspend",
)
_ALL = {**{key: OBJECTS[key] for key in ALSO_HERE}, **ON_KIND}
# One after the other those that make another cluster; at last the one that needs several nodes, after theirs.
ENTRIES = dict(
    sorted(_ALL.items(), key=lambda each: outcome(each[0], ClusterKind.KIND) is Outcome.CLUSTER_REPLACED)
)
ENTRIES["cluster.workers"] = ENTRIES.pop("cluster.workers")


@pytest.fixture(scope="module")
def project() -> Iterator[KindProject]:
    with clones.temporary("matrix") as clone:
        made = KindProject(clone)
        yield made
        made.up()
        made.settled()
        made.assert_shape()


@pytest.mark.parametrize(("key", "entry"), ENTRIES.items(), ids=list(ENTRIES))
def test_changes_as_its_rule_says_and_back(project: KindProject, key: str, entry: Entry) -> None:
    """Keys that make another cluster follow one another: the way back of one is part of the change to the next."""
    expected, changed = outcome(key, ClusterKind.KIND), entry.applied(key)
    if not (project.is_chained and expected is Outcome.CLUSTER_REPLACED):
        project.stand(**entry.given)
    before, models = project.settled(), project.models()
    assert models, "or there is nothing to keep"
    printed = project.up(**changed)
    after = project.settled()
    project.assert_shape()
    assert_as_expected(expected, before, after)
    assert UNCHANGED.search(printed) or expected is not Outcome.NOTHING
    project.assert_outputs_name_the_model(after)
    assert_kept(expected, models, project.models())
    if expected is not Outcome.NOTHING:
        models = project.models()
        assert UNCHANGED.search(project.up(**changed))
        assert uids(project.settled()) == uids(after)
        assert project.models() == models
    if expected is Outcome.CLUSTER_REPLACED:
        project.is_chained = True
        return
    project.up(**entry.given)
    back = project.settled()
    assert_as_expected(expected, back, after)
    project.assert_outputs_name_the_model(back)
    assert_kept(expected, models, project.models())
    assert closed_to_the_group(project.clone.models) == []


def assert_kept(expected: Outcome, before: dict[str, str], now: dict[str, str]) -> None:
    """Every run's model is kept; which one is the latest changes with another job alone."""
    kept = {path: digest for path, digest in before.items() if "/" in path or not _trains(expected)}
    assert kept.items() <= now.items()


def _trains(expected: Outcome) -> bool:
    return expected is Outcome.JOB_REPLACED
