"""What a folder that is applied after each merge has to do, as docs/gitops.md says, whatever applies it to whatever.

A module that collects the cases gives them `merged`, a repository whose first commit has been applied, `cluster`, and
`another_image`, the name of an image with the same trainer. They are the same for jobs of both APIs.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from infra.objects.job_kinds import PYTORCHJOB, RUNTIME, TRAINJOB
from infra.objects.kinds import Kind
from infra.review import gitops
from infra.review.text import LOADER
from tests.e2e.rendering import differences
from tests.matrix.gitops_cluster import KEPT, RUNTIMES, Cluster, asked, names, uids
from tests.matrix.judging import Objects
from tests.matrix.merged_folder import NAMESPACE, STACK, MergedFolder

RANK0 = {PYTORCHJOB.kind: "master-0", TRAINJOB.kind: "node-0-0-"}
"""The kind of a job -> how the names of its rank 0's pods go on after its own."""
BY_HAND: dict[str, tuple[Kind, dict[str, Any], str]] = {
    PYTORCHJOB.kind: (PYTORCHJOB, {"runPolicy": {"backoffLimit": 9}}, "backoffLimit: 9"),
    TRAINJOB.kind: (RUNTIMES, {"mlPolicy": {"numNodes": 9}}, "numNodes: 9"),
}
"""The kind of a job -> what somebody changes by hand of which of its objects, and how kubectl shows that."""
FOR_LIFE = {"activeDeadlineSeconds": 7200, "backoffLimit": 7}
"""Keys of a job's runPolicy -> another value. The one is a TrainJob's for its life, the other its runtime's."""


def wanted(merged: MergedFolder, kind: str) -> dict[str, Any]:
    """The object of this kind that the commit has for engines."""
    (found,) = [
        each for each in yaml.load_all(merged.built(gitops.JOBS), Loader=LOADER) if each["kind"] == kind
    ]
    return dict(found)


def job_of(merged: MergedFolder) -> str:
    return str(wanted(merged, merged.kind.kind)["metadata"]["name"])


def key_of(merged: MergedFolder, kind: Kind) -> str:
    """Where a cluster's objects have the job, or its runtime: both have the name of the run."""
    return f"{kind.kind}/{NAMESPACE}/{job_of(merged)}"


def jobs(merged: MergedFolder, found: Objects) -> list[str]:
    """The names of the cluster's jobs. Each TrainJob has its own runtime, and there is no other."""
    of_jobs = names(found, merged.kind.kind)
    assert names(found, RUNTIME) == (of_jobs if merged.kind is TRAINJOB else [])
    return of_jobs


def delete_by_hand(merged: MergedFolder) -> None:
    merged.run(f"kubectl delete {merged.kind.resource} {job_of(merged)} -n {NAMESPACE}")


def delete_with_runtime(merged: MergedFolder) -> None:
    delete_by_hand(merged)
    if merged.kind is TRAINJOB:
        merged.run(f"kubectl delete {RUNTIMES.resource} {job_of(merged)} -n {NAMESPACE}")


class Cases:
    """One after the other on one cluster."""

    def test_the_first_time_it_trains(self, merged: MergedFolder, cluster: Cluster) -> None:
        found = cluster.settled()
        assert jobs(merged, found) == [job_of(merged)]
        for kind in {merged.kind, BY_HAND[merged.kind.kind][0]}:
            live = found[key_of(merged, kind)]
            assert not list(differences(wanted(merged, kind.kind)["spec"], live["spec"]))
        rank0 = f"{job_of(merged)}-{RANK0[merged.kind.kind]}"
        assert any(name.startswith(rank0) for name in names(found, "Pod"))
        assert names(found, "Job") == [wanted(merged, "Job")["metadata"]["name"]]
        assert set(KEPT) <= found.keys()

    def test_a_merged_change_trains_once_and_takes_the_older_job_away(
        self, merged: MergedFolder, cluster: Cluster
    ) -> None:
        before, first = cluster.settled(), job_of(merged)
        merged.merge(**{"job.training.epochs": 3})
        merged.apply()
        after = cluster.settled()
        assert jobs(merged, after) == [job_of(merged)] != [first]
        assert all(
            name.startswith((job_of(merged), f"trainstack-{STACK}-models-prepare"))
            for name in names(after, "Pod")
        )
        assert uids(after, *KEPT) == uids(before, *KEPT)
        merged.apply()
        assert asked(cluster.settled()) == asked(after)

    def test_another_image_prepares_the_volume_anew(
        self, merged: MergedFolder, cluster: Cluster, another_image: str
    ) -> None:
        before = cluster.settled()
        merged.merge(**{"image.reference": another_image})
        merged.apply()
        after = cluster.settled()
        assert names(after, "Job") == [wanted(merged, "Job")["metadata"]["name"]] != names(before, "Job")

    def test_drift_by_hand_is_reported_and_repaired(self, merged: MergedFolder, cluster: Cluster) -> None:
        kind, change, shown = BY_HAND[merged.kind.kind]
        cluster.change(kind, job_of(merged), change)
        told = merged.run(
            f"kubectl diff --server-side --force-conflicts -k stacks/rendered/{STACK}/jobs", status=1
        )
        assert shown in told
        merged.apply()
        repaired = cluster.settled()[key_of(merged, kind)]
        assert not list(differences(wanted(merged, kind.kind)["spec"], repaired["spec"]))

    def test_what_was_deleted_by_hand_is_made_again(self, merged: MergedFolder, cluster: Cluster) -> None:
        before = cluster.settled()
        delete_by_hand(merged)
        merged.apply()
        after = cluster.settled()
        assert jobs(merged, after) == jobs(merged, before)
        key = key_of(merged, merged.kind)
        assert uids(after, key) != uids(before, key)

    @pytest.mark.parametrize("key", FOR_LIFE)
    def test_another_policy_of_the_same_run_reaches_its_job(
        self, merged: MergedFolder, cluster: Cluster, key: str
    ) -> None:
        """In place, or once somebody has deleted the job: the API server holds some fields of a TrainJob's."""
        before = cluster.settled()
        merged.merge(**{f"job.runPolicy.{key}": FOR_LIFE[key]})
        assert jobs(merged, before) == [job_of(merged)], "it is the same run"
        if merged.kind is TRAINJOB:
            assert "is immutable" in merged.refused()
            assert uids(cluster.settled(), key_of(merged, TRAINJOB)) == uids(before, key_of(merged, TRAINJOB))
            delete_with_runtime(merged)
        merged.apply()
        after = cluster.settled()
        for kind in {merged.kind, BY_HAND[merged.kind.kind][0]}:
            assert not list(
                differences(wanted(merged, kind.kind)["spec"], after[key_of(merged, kind)]["spec"])
            )
        delete_with_runtime(merged)  # the next case has the usual policies

    def test_another_volume_leaves_the_old_one(self, merged: MergedFolder, cluster: Cluster) -> None:
        before = cluster.settled()
        merged.merge(**{"storage.volume": f"{STACK}-other"})
        merged.apply()
        after = cluster.settled()
        assert {*KEPT, f"PersistentVolume//{STACK}-other"} <= after.keys()
        assert uids(after, *KEPT) == uids(before, *KEPT)

    def test_deleting_the_stack_keeps_the_volume(self, merged: MergedFolder, cluster: Cluster) -> None:
        before = cluster.settled()
        merged.delete()
        after = cluster.settled()
        assert jobs(merged, after) == names(after, "Job") == names(after, "Pod") == []
        assert uids(after, *KEPT) == uids(before, *KEPT)
