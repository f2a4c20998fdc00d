"""What a folder that is applied after each merge has to do, as docs/review.md says, whatever applies it to whatever.

A module that collects the cases gives them `merged`, a repository whose first commit has been applied, `cluster`, and
`another_image`, the name of an image with the same trainer.
"""

from __future__ import annotations

from typing import Any

import yaml

from tests.e2e.rendering import differences
from tests.matrix.gitops_cluster import KEPT, Cluster, asked, names, uids
from tests.matrix.merged_folder import NAMESPACE, STACK, MergedFolder


def wanted(merged: MergedFolder, kind: str) -> dict[str, Any]:
    """The committed object of this kind."""
    (path,) = merged.root.glob(f"stacks/gitops/{STACK}/jobs/*-{kind.lower()}-*.yaml")
    return dict(yaml.safe_load(path.read_text()))


def job_of(merged: MergedFolder) -> str:
    return str(wanted(merged, "PyTorchJob")["metadata"]["name"])


class Cases:
    """One after the other on one cluster."""

    def test_the_first_time_it_trains(self, merged: MergedFolder, cluster: Cluster) -> None:
        found = cluster.settled()
        job = found[f"PyTorchJob/{NAMESPACE}/{job_of(merged)}"]
        assert not list(differences(wanted(merged, "PyTorchJob")["spec"], job["spec"]))
        assert f"{job_of(merged)}-master-0" in names(found, "Pod")
        assert names(found, "Job") == [wanted(merged, "Job")["metadata"]["name"]]
        assert set(KEPT) <= found.keys()

    def test_a_merged_change_trains_once_and_takes_the_older_job_away(
        self, merged: MergedFolder, cluster: Cluster
    ) -> None:
        before, first = cluster.settled(), job_of(merged)
        merged.merge(**{"job.training.epochs": 3})
        merged.apply()
        after = cluster.settled()
        assert names(after, "PyTorchJob") == [job_of(merged)] != [first]
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

    def test_an_unrelated_commit_does_nothing(self, merged: MergedFolder, cluster: Cluster) -> None:
        before = cluster.settled()
        (merged.root / "README.md").write_text("of something else")
        merged.commit("Say something else")
        merged.apply()
        assert asked(cluster.settled()) == asked(before)

    def test_drift_by_hand_is_reported_and_repaired(self, merged: MergedFolder, cluster: Cluster) -> None:
        job = job_of(merged)
        cluster.change(job, {"runPolicy": {"backoffLimit": 9}})
        told = merged.run(
            f"kubectl diff --server-side --force-conflicts -f stacks/gitops/{STACK}/jobs", status=1
        )
        assert "backoffLimit: 9" in told
        merged.apply()
        repaired = cluster.settled()[f"PyTorchJob/{NAMESPACE}/{job}"]
        assert not list(differences(wanted(merged, "PyTorchJob")["spec"], repaired["spec"]))

    def test_what_was_deleted_by_hand_is_made_again(self, merged: MergedFolder, cluster: Cluster) -> None:
        before = cluster.settled()
        merged.run(f"kubectl delete pytorchjob {job_of(merged)} -n {NAMESPACE}")
        merged.apply()
        after = cluster.settled()
        assert names(after, "PyTorchJob") == names(before, "PyTorchJob")
        key = f"PyTorchJob/{NAMESPACE}/{job_of(merged)}"
        assert uids(after, key) != uids(before, key)

    def test_a_revert_makes_the_older_runs_job_again(self, merged: MergedFolder, cluster: Cluster) -> None:
        before = cluster.settled()
        merged.merge(**{"job.training.epochs": 3})
        merged.apply()
        between = cluster.settled()
        merged.git("revert", "--no-edit", "HEAD")
        merged.apply()
        after = cluster.settled()
        assert names(after, "PyTorchJob") == names(before, "PyTorchJob") != names(between, "PyTorchJob")
        assert uids(after, *KEPT) == uids(before, *KEPT)

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
        assert names(after, "PyTorchJob") == names(after, "Job") == names(after, "Pod") == []
        assert uids(after, *KEPT) == uids(before, *KEPT)
