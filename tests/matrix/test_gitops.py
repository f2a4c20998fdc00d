"""The folder that is applied after each merge, as docs/review.md says: six cases on an API server without nodes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from infra.inspection import SETTLE_S
from infra.objects.pytorchjob import CRD
from infra.review import folder, gitops
from standins.tests.apiserver import ApiServer
from tests.matrix.gitops_agent import AgentFolder
from tests.matrix.judging import Objects, by_key
from tests.matrix.merged_folder import NAMESPACE, STACK, MergedFolder
from tests.matrix.played_operator import GROUP, PLURAL, VERSION, PlayedOperator

KEPT = (
    f"PersistentVolume//trainstack-{STACK}-models",
    f"PersistentVolumeClaim/{NAMESPACE}/trainstack-{STACK}-models",
)

OURS = f"trainstack/stack={STACK}"
ENGINES = [
    pytest.param(MergedFolder, id="kubectl"),
    pytest.param(
        AgentFolder,
        id="Argo CD's engine",
        marks=pytest.mark.slow(reason="five minutes of compiling where it is not cached"),
    ),
]


class Cluster:
    """What the API server holds of the tests' stack."""

    def __init__(self, kubeconfig: Path) -> None:
        self.connection: Any = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self.core, self.batch = client.CoreV1Api(self.connection), client.BatchV1Api(self.connection)
        self.custom = client.CustomObjectsApi(self.connection)

    def objects(self) -> Objects:
        """Kind/namespace/name -> each volume, claim, job, Job and pod."""
        jobs: Any = self.custom.list_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL)
        listed: dict[str, Any] = {
            "PersistentVolume": self.core.list_persistent_volume(),
            "PersistentVolumeClaim": self.core.list_namespaced_persistent_volume_claim(NAMESPACE),
            "Job": self.batch.list_namespaced_job(NAMESPACE),
            "Pod": self.core.list_namespaced_pod(NAMESPACE),
        }
        found = [
            {**self.connection.sanitize_for_serialization(each), "kind": kind}
            for kind, answer in listed.items()
            for each in answer.items
        ]
        return by_key([*found, *jobs["items"]])

    def settled(self) -> Objects:
        """The objects when every job has ended, every claim is bound, and nothing is about to go."""
        end = time.monotonic() + SETTLE_S
        found = self.objects()
        while waits := unsettled(found):
            assert time.monotonic() < end, waits
            time.sleep(0.2)
            found = self.objects()
        return found

    def change(self, job: str, spec: dict[str, Any]) -> None:
        """Somebody changes a job by hand."""
        self.custom.patch_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, job, {"spec": spec})

    def clear(self) -> None:
        """Take away all that the tests have made, and wait until it is gone."""
        self.core.delete_namespace(NAMESPACE)
        self.core.delete_collection_persistent_volume(label_selector=OURS)
        end = time.monotonic() + SETTLE_S
        while self._is_there():
            assert time.monotonic() < end, self.objects()
            time.sleep(0.2)

    def _is_there(self) -> bool:
        try:
            self.core.read_namespace(NAMESPACE)
        except ApiException as error:
            if error.status != 404:
                raise
            return bool(self.core.list_persistent_volume(label_selector=OURS).items)
        return True


def unsettled(found: Objects) -> list[str]:
    """What has not ended yet, is not bound yet, or goes soon because it is deleted or its owner is."""
    there = {each["metadata"]["uid"] for each in found.values()}
    return [
        key
        for key, each in found.items()
        if each["metadata"].get("deletionTimestamp")
        or not has_ended(each)
        or not {owner["uid"] for owner in each["metadata"].get("ownerReferences", [])} <= there
    ]


def has_ended(each: dict[str, Any]) -> bool:
    status = each.get("status", {})
    if "phase" in status:
        return status["phase"] in ("Bound", "Succeeded")
    return any(condition["type"] in ("Succeeded", "Complete") for condition in status.get("conditions", []))


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> type[MergedFolder]:
    """What applies the commits. Each begins with a cluster without objects of the other."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def cluster(api_server: ApiServer, operator: PlayedOperator, engine: type[MergedFolder]) -> Iterator[Cluster]:
    made = Cluster(api_server.kubeconfig)
    yield made
    made.clear()


@pytest.fixture
def merged(
    engine: type[MergedFolder], cluster: Cluster, api_server: ApiServer, tmp_path: Path
) -> MergedFolder:
    """A repository whose first commit has been applied."""
    made = engine(tmp_path, api_server.kubeconfig)
    made.merge()
    made.apply()
    cluster.settled()
    return made


def names(found: Objects, kind: str) -> list[str]:
    return [each["metadata"]["name"] for each in found.values() if each["kind"] == kind]


def uids(found: Objects, *keys: str) -> list[str]:
    return [found[key]["metadata"]["uid"] for key in keys]


def wanted(merged: MergedFolder, kind: str) -> dict[str, Any]:
    """The committed object of this kind."""
    (path,) = merged.root.glob(f"stacks/gitops/{STACK}/jobs/*-{kind.lower()}-*.yaml")
    return dict(yaml.safe_load(path.read_text()))


def job_of(merged: MergedFolder) -> str:
    return str(wanted(merged, "PyTorchJob")["metadata"]["name"])


def test_the_first_time_it_trains(merged: MergedFolder, cluster: Cluster) -> None:
    found = cluster.settled()
    job = found[f"PyTorchJob/{NAMESPACE}/{job_of(merged)}"]
    assert job["spec"] == wanted(merged, "PyTorchJob")["spec"]
    assert f"{job_of(merged)}-master-0" in names(found, "Pod")
    assert names(found, "Job") == [wanted(merged, "Job")["metadata"]["name"]]
    assert set(KEPT) <= found.keys()


def test_a_merged_change_trains_once_and_takes_the_older_job_away(
    merged: MergedFolder, cluster: Cluster
) -> None:
    before, first = cluster.settled(), job_of(merged)
    merged.merge(**{"job.training": {"epochs": 3}})
    merged.apply()
    after = cluster.settled()
    assert names(after, "PyTorchJob") == [job_of(merged)] != [first]
    assert all(
        name.startswith((job_of(merged), f"trainstack-{STACK}-models-prepare"))
        for name in names(after, "Pod")
    )
    assert uids(after, *KEPT) == uids(before, *KEPT)
    merged.apply()
    assert cluster.settled() == after, "nothing has changed, not even a resource's version"


def test_another_image_prepares_the_volume_anew(merged: MergedFolder, cluster: Cluster) -> None:
    before = cluster.settled()
    merged.merge(**{"image.reference": "localhost:5000/trainer:2"})
    merged.apply()
    after = cluster.settled()
    assert names(after, "Job") == [wanted(merged, "Job")["metadata"]["name"]] != names(before, "Job")


def test_an_unrelated_commit_does_nothing(merged: MergedFolder, cluster: Cluster) -> None:
    before = cluster.settled()
    (merged.root / "README.md").write_text("of something else")
    merged.commit("Say something else")
    merged.apply()
    assert cluster.settled() == before


def test_drift_by_hand_is_reported_and_repaired(merged: MergedFolder, cluster: Cluster) -> None:
    job = job_of(merged)
    cluster.change(job, {"runPolicy": {"backoffLimit": 9}})
    told = merged.run(f"kubectl diff --server-side --force-conflicts -f stacks/gitops/{STACK}/jobs", status=1)
    assert "backoffLimit: 9" in told
    merged.apply()
    found = cluster.settled()
    assert found[f"PyTorchJob/{NAMESPACE}/{job}"]["spec"] == wanted(merged, "PyTorchJob")["spec"]


def test_what_was_deleted_by_hand_is_made_again(merged: MergedFolder, cluster: Cluster) -> None:
    before = cluster.settled()
    merged.run(f"kubectl delete pytorchjob {job_of(merged)} -n {NAMESPACE}")
    merged.apply()
    after = cluster.settled()
    assert names(after, "PyTorchJob") == names(before, "PyTorchJob")
    key = f"PyTorchJob/{NAMESPACE}/{job_of(merged)}"
    assert uids(after, key) != uids(before, key)


def test_a_revert_makes_the_older_runs_job_again(merged: MergedFolder, cluster: Cluster) -> None:
    before = cluster.settled()
    merged.merge(**{"job.training": {"epochs": 3}})
    merged.apply()
    between = cluster.settled()
    merged.git("revert", "--no-edit", "HEAD")
    merged.apply()
    after = cluster.settled()
    assert names(after, "PyTorchJob") == names(before, "PyTorchJob") != names(between, "PyTorchJob")
    assert uids(after, *KEPT) == uids(before, *KEPT)


def test_another_volume_leaves_the_old_one(merged: MergedFolder, cluster: Cluster) -> None:
    before = cluster.settled()
    merged.merge(**{"storage.volume": f"{STACK}-other"})
    merged.apply()
    after = cluster.settled()
    assert {*KEPT, f"PersistentVolume//{STACK}-other"} <= after.keys()
    assert uids(after, *KEPT) == uids(before, *KEPT)


def test_deleting_the_stack_keeps_the_volume(merged: MergedFolder, cluster: Cluster) -> None:
    before = cluster.settled()
    merged.delete()
    after = cluster.settled()
    assert names(after, "PyTorchJob") == names(after, "Job") == names(after, "Pod") == []
    assert uids(after, *KEPT) == uids(before, *KEPT)


@pytest.mark.parametrize("stack", sorted(each.name for each in (folder.STACKS / folder.GITOPS).iterdir()))
def test_a_committed_kustomization_builds_the_folders_objects(stack: str) -> None:
    """With the CRD where the stack brings the operator; no engine prunes it, since all jobs would go with it."""
    top = folder.STACKS / folder.GITOPS / stack
    done = subprocess.run(["kubectl", "kustomize", top], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built = by_key(yaml.safe_load_all(done.stdout))
    crd = built.pop(f"CustomResourceDefinition//{CRD}", None)
    assert built == by_key(yaml.safe_load(each.read_text()) for each in top.glob("*/*.yaml"))
    assert (crd is not None) is (top / gitops.OPERATOR).exists()
    if crd is not None:
        assert gitops.NEVER_PRUNED.keys() <= crd["metadata"]["annotations"].keys()
        assert "Prune=false,Delete=false" in crd["metadata"]["annotations"]["argocd.argoproj.io/sync-options"]
