"""Each kind of storage on a real API server: what is made, what stays, and what is refused with the way out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from infra import agreed
from infra.config.load import from_file
from infra.objects.api import ApiAddress
from infra.release_volumes import HeldError, Releasing
from tests.matrix.judging import identities, job_specs, uid
from tests.matrix.project import AppliedProject
from toolchain.operating import pulumi_cli, state, update

NAMESPACE = "kubeflow"
HOST_PATH = "trainstack-matrix-models"
FAST = f"{HOST_PATH}-fast"
CLASS: dict[str, Any] = {"storage.kind": "class", "storage.storageClass": "fast"}
NFS: dict[str, Any] = {
    "storage.kind": "nfs",
    "storage.nfsServer": "nfs.example",
    "storage.nfsPath": "/exports",
}
THEIRS: dict[str, Any] = {"storage.kind": "claim", "storage.claim": "theirs"}


SLOW = pytest.mark.slow(
    reason="three or four updates each; make test tries each kind, a refusal and the way down"
)


@pytest.fixture(scope="module", autouse=True)
def classes(project: AppliedProject) -> Iterator[None]:
    """Two storage classes whose provisioner is played: one lets claims grow."""
    storage = client.StorageV1Api(project.connection)
    for name, grows in (("fast", True), ("rigid", False)):
        made: Any = {
            "metadata": {"name": name},
            "provisioner": "example.org/played",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": grows,
        }
        storage.create_storage_class(made)
    yield
    for name in ("fast", "rigid"):
        storage.delete_storage_class(name)


@pytest.fixture(autouse=True)
def as_it_was(project: AppliedProject) -> Iterator[None]:
    """Each test begins and ends with a hostPath."""
    project.stand()
    yield
    project.stand()
    core: Any = project.core
    for each in core.list_namespaced_persistent_volume_claim(NAMESPACE).items:
        if each.metadata.name != HOST_PATH:
            core.delete_namespaced_persistent_volume_claim(each.metadata.name, NAMESPACE)
    for each in core.list_persistent_volume().items:
        if each.metadata.name != HOST_PATH:
            core.delete_persistent_volume(each.metadata.name)
    project.settled()


def provision(project: AppliedProject, claim: str, policy: str = "Delete") -> None:
    """Play the provisioner: a volume for `claim`, with the reclaim policy that most classes have."""
    volume: Any = {
        "metadata": {"name": f"pvc-{claim}"},
        "spec": {
            "storageClassName": "fast",
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": policy,
            "claimRef": {"namespace": NAMESPACE, "name": claim},
            "csi": {"driver": "example.org", "volumeHandle": claim},
        },
    }
    project.core.create_persistent_volume(volume)


def claims(project: AppliedProject) -> dict[str, dict[str, Any]]:
    found = {key: each for key, each in project.objects().items() if each["kind"] == "PersistentVolumeClaim"}
    return {
        each["metadata"]["name"]: each
        for each in found.values()
        if "deletionTimestamp" not in each["metadata"]
    }


def volumes(project: AppliedProject) -> set[str]:
    return {
        each["metadata"]["name"] for each in project.objects().values() if each["kind"] == "PersistentVolume"
    }


def mounted(project: AppliedProject) -> set[str]:
    """The claims that the pods of the job mount."""
    return {
        volume["persistentVolumeClaim"]["claimName"]
        for spec in job_specs(project.objects()).values()
        for replica in spec["pytorchReplicaSpecs"].values()
        for volume in replica["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }


def assert_refused(project: AppliedProject, *words: str, **changes: Any) -> None:
    """Nothing is touched, and the message has all of `words`."""
    before = identities(project.objects())
    project.configured(**changes)
    told = project.refused()
    assert [word for word in words if word not in told] == [], told
    assert identities(project.objects()) == before


def test_a_claim_of_a_class_is_made_and_bound_by_its_first_pod(project: AppliedProject) -> None:
    project.up(**CLASS)
    (made,) = claims(project).values()
    assert made["metadata"]["name"] == FAST
    assert made["spec"]["storageClassName"] == "fast"
    assert "selector" not in made["spec"]
    assert mounted(project) == {FAST}
    assert HOST_PATH not in volumes(project), "no volume is ours to make"
    provision(project, FAST)
    project.settled()
    project.up("--expect-no-changes", **CLASS)


@SLOW
def test_its_claim_outlives_the_stacks_other_kinds_and_is_taken_up_again(project: AppliedProject) -> None:
    project.up(**CLASS)
    provision(project, FAST)
    kept = uid(claims(project)[FAST])
    project.up()
    assert {name: uid(each) for name, each in claims(project).items()}[FAST] == kept
    assert mounted(project) == {HOST_PATH}
    project.configured(**CLASS)
    told = project.refused()
    assert f"PersistentVolumeClaim/{NAMESPACE}/{FAST}" in told
    assert "make up STACK=matrix puts them into the state" in told


@SLOW
def test_another_class_gets_another_claim(project: AppliedProject) -> None:
    project.up(**CLASS)
    kept = uid(claims(project)[FAST])
    project.up(**{**CLASS, "storage.storageClass": "rigid"})
    assert uid(claims(project)[FAST]) == kept
    assert mounted(project) == {f"{HOST_PATH}-rigid"}


@SLOW
def test_a_claim_grows_in_place_where_its_class_lets_it(project: AppliedProject) -> None:
    project.up(**CLASS)
    provision(project, FAST)
    project.settled()
    before = uid(claims(project)[FAST])
    project.up(**CLASS, **{"storage.request": "4Gi"})
    grown = claims(project)[FAST]
    assert (uid(grown), grown["spec"]["resources"]["requests"]["storage"]) == (before, "4Gi")
    assert_refused(project, "storage.request = '2Gi'", "4Gi", **CLASS, **{"storage.request": "2Gi"})
    rigid = {**CLASS, "storage.storageClass": "rigid"}
    project.up(**rigid)
    assert_refused(
        project, "storage.request", "does not allow a larger one", **rigid, **{"storage.request": "4Gi"}
    )


@SLOW
def test_what_would_need_another_claim_asks_for_another_name(project: AppliedProject) -> None:
    project.up(**CLASS)
    way = f"`claim: {FAST}-2`"
    assert_refused(project, way, "ReadWriteMany", **CLASS, **{"storage.accessMode": "ReadWriteOnce"})
    named = {**CLASS, "storage.claim": FAST, "storage.storageClass": "rigid"}
    assert_refused(project, way, "class is fast", **named)
    assert_refused(project, way, **{"storage.claim": FAST})


@SLOW
def test_a_hostpaths_claim_is_not_taken_for_one_of_a_class(project: AppliedProject) -> None:
    assert_refused(project, f"`claim: {HOST_PATH}-2`", **CLASS, **{"storage.claim": HOST_PATH})


def test_a_class_that_is_not_there_is_refused_with_those_that_are(project: AppliedProject) -> None:
    missing = {**CLASS, "storage.storageClass": "nowhere"}
    assert_refused(project, "storage.storageClass = 'nowhere'", "fast, rigid", "fix: ", **missing)


def test_somebody_elses_claim_is_used_and_left(project: AppliedProject) -> None:
    assert_refused(project, "storage.claim = 'theirs'", HOST_PATH, "fix: create it", **THEIRS)
    spec = {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    body: Any = {"metadata": {"name": "theirs"}, "spec": spec}
    project.core.create_namespaced_persistent_volume_claim(NAMESPACE, body)
    provision(project, "theirs")
    before = uid(claims(project)["theirs"])
    project.up(**THEIRS)
    assert mounted(project) == {"theirs"}
    assert set(claims(project)) == {"theirs"}, "none of ours is left"
    assert HOST_PATH not in volumes(project)
    project.up("--expect-no-changes", **THEIRS)
    project.up()
    theirs = claims(project)["theirs"]
    assert uid(theirs) == before
    assert "labels" not in theirs["metadata"]


@SLOW
def test_a_claim_of_our_own_is_not_somebody_elses(project: AppliedProject) -> None:
    """Pulumi would delete it in the same update."""
    own = {**THEIRS, "storage.claim": HOST_PATH}
    assert_refused(project, f"storage.claim = '{HOST_PATH}'", "Pulumi would delete this one", **own)


@SLOW
@pytest.mark.parametrize("kind", ["class", "claim"])
def test_a_claim_that_somebody_deletes_is_said_and_not_hurried(project: AppliedProject, kind: str) -> None:
    name = FAST if kind == "class" else "theirs"
    if kind == "claim":
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        body: Any = {"metadata": {"name": name}, "spec": {"storageClassName": "fast", **spec}}
        project.core.create_namespaced_persistent_volume_claim(NAMESPACE, body)
    project.up(**(CLASS if kind == "class" else THEIRS))
    project.core.delete_namespaced_persistent_volume_claim(name, NAMESPACE)
    before = identities(project.objects())
    stack = from_file(Path(project.stack_file))
    said = rf"(?s){name} is Terminating.*nothing was touched.*fix: while a pod still mounts the claim, copy"
    with pytest.raises(HeldError, match=said):
        Releasing(stack, ApiAddress(project.environment["KUBECONFIG"]), print).run()
    assert identities(project.objects()) == before, "the job that holds it is left, too"


def test_an_nfs_export_is_a_volume_of_ours(project: AppliedProject) -> None:
    project.up(**NFS)
    project.settled()
    volume: Any = project.core.read_persistent_volume(HOST_PATH)
    assert (volume.spec.nfs.server, volume.spec.nfs.path) == ("nfs.example", "/exports")
    assert volume.spec.persistent_volume_reclaim_policy == "Retain"
    assert volume.status.phase == "Bound"
    assert mounted(project) == {HOST_PATH}


@SLOW
def test_who_comes_back_goes_on_with_the_claim(
    project: AppliedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the owner's id that `make down` has shown."""
    project.up(**CLASS)
    provision(project, FAST)
    kept, held = uid(claims(project)[FAST]), project.deployment()
    project.destroy()
    monkeypatch.setattr(project, "environment", dict(project.environment))

    def pulumi_up(variables: Mapping[str, str], *options: str) -> int:
        project.environment |= variables
        chosen = ("--yes", "--skip-preview", "--stack", project.stack)
        return project.pulumi("up", *chosen, *options).returncode

    def output(variables: Mapping[str, str], *words: str) -> str:
        project.environment |= variables
        told = project.pulumi(*words).stdout
        del project.environment[agreed.ADOPTING]
        return told[told.index("{\n") :]

    monkeypatch.setattr(pulumi_cli, "_output", output)
    monkeypatch.setattr(pulumi_cli, "edit_state", lambda _, __, edit: project.edit_state(edit))
    update.update({agreed.ADOPT: str(state.owner(held))}, project.stack, pulumi_up, lambda: False)
    assert uid(claims(project)[FAST]) == kept
    found = project.deployment()
    assert state.owner(found) == state.owner(held)
    retained = {
        each["outputs"]["metadata"]["name"] for each in state.objects(found) if each.get(state.RETAINED)
    }
    assert retained == {NAMESPACE, FAST}
    project.up("--expect-no-changes", **CLASS)


def test_destroying_the_stack_leaves_a_claim_with_files_and_its_namespace(project: AppliedProject) -> None:
    project.up(**CLASS)
    provision(project, FAST)
    kept = uid(claims(project)[FAST])
    project.destroy()
    found: Any = project.core.read_namespace(NAMESPACE)
    assert found.metadata.deletion_timestamp is None
    assert uid(claims(project)[FAST]) == kept
    project.core.delete_namespaced_persistent_volume_claim(FAST, NAMESPACE)
    project.core.delete_persistent_volume(f"pvc-{FAST}")
