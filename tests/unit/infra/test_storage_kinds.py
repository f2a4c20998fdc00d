"""Each kind of storage: which keys go with it, what a stack registers for it, and where its models come from."""

from __future__ import annotations

from typing import Any

import pytest

from infra import decision, inspection, stack_plan, volumes
from infra.clusters.node_folders import ensure_one_folder
from infra.config import ConfigError, Stack
from infra.config.storage import StorageConfig
from infra.config.storage_kinds import ONLY_FOR, OUR_VOLUME, REQUIRED, StorageKind
from infra.review import folder, gitops
from infra.upstream import vendored
from storage.manifests import manifests
from tests.unit.infra.objects.played_api import look
from tests.unit.infra.samples import JOB, stack, upstreams
from tests.unit.infra.shared_folder.played_nodes import node

CLUSTERS = ["kind", "existing"]
IMAGE = {"repository": "registry.example/trainer"}
KEYS: dict[StorageKind, dict[str, Any]] = {
    StorageKind.HOST_PATH: {},
    StorageKind.CLASS: {"storageClass": "fast"},
    StorageKind.CLAIM: {"claim": "theirs"},
    StorageKind.NFS: {"nfsServer": "nfs.example", "nfsPath": "/exports"},
}
"""What each kind needs."""
MADE: dict[StorageKind, list[str]] = {
    StorageKind.HOST_PATH: ["PersistentVolume", "PersistentVolumeClaim"],
    StorageKind.CLASS: ["PersistentVolumeClaim"],
    StorageKind.CLAIM: [],
    StorageKind.NFS: ["PersistentVolume", "PersistentVolumeClaim"],
}
VALUES: dict[str, Any] = {"labels": {"a": "b"}, "reclaimPolicy": "Retain", "accessMode": "ReadWriteOnce"}


def of_kind(kind: StorageKind, cluster: str = "existing", **storage: Any) -> Stack:
    image = {"image": IMAGE} if cluster == "existing" else {}
    return stack("x", cluster={"kind": cluster}, storage={"kind": kind, **KEYS[kind], **storage}, **image)


def with_data(kind: StorageKind, **storage: Any) -> Stack:
    data = [{"path": "/data", "folder": "/var/lib/trainstack/data"}]
    given = {"kind": kind, **KEYS[kind], **storage}
    return stack("x", cluster={"kind": "existing"}, storage=given, image=IMAGE, job={**JOB, "data": data})


@pytest.mark.parametrize(
    ("key", "kind"),
    [(key, kind) for key, kinds in ONLY_FOR.items() for kind in StorageKind if kind not in kinds],
)
def test_a_key_of_another_kind_is_refused_with_the_way_out(key: str, kind: StorageKind) -> None:
    value = VALUES.get(
        key, "/x" if key.endswith("Path") else "1Gi" if key in ("capacity", "request") else "one"
    )
    with pytest.raises(ConfigError) as refused:
        of_kind(kind, **{key: value})
    text = str(refused.value)
    assert f"trainstack:storage.{key} = {value!r}" in text
    assert f"allowed: `{key}` only with `kind: {ONLY_FOR[key][0]}`" in text
    assert f"fix: remove {key}, or set `kind: " in text


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in REQUIRED.items() for name in names]
)
def test_a_key_that_a_kind_needs_is_asked_for(kind: StorageKind, name: str) -> None:
    key = str(StorageConfig.model_fields[name].alias)
    given = {each: value for each, value in KEYS[kind].items() if each != key}
    with pytest.raises(ConfigError) as refused:
        stack(storage={"kind": kind, **given})
    text = str(refused.value)
    assert f"trainstack:storage.{key} = (absent)" in text
    assert f"allowed: a value, which `kind: {kind}` requires" in text
    assert f"fix: add `{key}: …`" in text


@pytest.mark.parametrize("kind", StorageKind)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_rendering_passes_the_policies_and_holds_what_is_ours(
    kind: StorageKind, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendored, "objects", upstreams)
    known = of_kind(kind, cluster)
    groups = folder.groups(known)
    assert [each["kind"] for each in manifests(volumes.models(known))] == MADE[kind]
    rendered = {(each["kind"], each["metadata"]["name"]) for found in groups.values() for each in found}
    for made in ("PersistentVolume", "PersistentVolumeClaim"):
        claim = known.volume if made == "PersistentVolume" else known.claim
        assert ((made, claim) in rendered) is (made in MADE[kind])
    assert (("Job", f"{known.claim}-prepare") in rendered) is known.prepared_by_job
    (job,) = [each for each in groups[gitops.JOBS] if each["kind"] == "PyTorchJob"]
    assert f"'claimName': '{known.claim}'" in str(job)


@pytest.mark.parametrize(
    ("kind", "cluster", "prepares", "by_job"),
    [
        (StorageKind.HOST_PATH, "kind", True, False),
        (StorageKind.HOST_PATH, "existing", True, True),
        (StorageKind.CLASS, "kind", True, True),
        (StorageKind.CLASS, "existing", True, True),
        (StorageKind.CLAIM, "existing", False, False),
        (StorageKind.NFS, "existing", False, False),
    ],
)
def test_folders_of_others_are_prepared_on_request_alone(
    kind: StorageKind, cluster: str, prepares: bool, by_job: bool
) -> None:
    known = of_kind(kind, cluster)
    assert (known.storage.prepares, known.prepared_by_job) == (prepares, by_job)
    asked = of_kind(kind, cluster, prepare=True)
    assert asked.storage.prepares
    mounted = stack_plan.preparation(asked, "image")["spec"]["template"]["spec"]["volumes"]
    assert mounted == [{"name": "models", "persistentVolumeClaim": {"claimName": asked.claim}}]
    assert not of_kind(kind, cluster, prepare=False).storage.prepares


LONGEST_CLAIM = 55
"""With `-prepare` behind it, 63 characters: a Job's name is a label of its pods."""
CLAIMS = [
    *((kind, "claim") for kind in StorageKind),
    *((kind, "volume") for kind in OUR_VOLUME),
    (StorageKind.CLASS, "storageClass"),
]
"""The keys that a claim's name comes from."""


@pytest.mark.parametrize("prepare", [{}, {"prepare": True}, {"prepare": False}])
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize(("kind", "key"), CLAIMS)
def test_a_claim_too_long_for_the_job_that_prepares_it_is_refused(
    kind: StorageKind, key: str, cluster: str, prepare: dict[str, bool]
) -> None:
    behind = "trainstack-x-models-" if key == "storageClass" else ""
    value = "c" * (LONGEST_CLAIM - len(behind))
    fits = of_kind(kind, cluster, **{key: value}, **prepare)
    assert len(fits.claim) == LONGEST_CLAIM
    name = stack_plan.preparation(fits, "image")["metadata"]["name"]
    assert len(name) == 63
    too_long = {key: f"{value}c", **prepare}
    if not fits.prepared_by_job:
        assert len(of_kind(kind, cluster, **too_long).claim) == LONGEST_CLAIM + 1
        return
    with pytest.raises(ConfigError) as refused:
        of_kind(kind, cluster, **too_long)
    text = str(refused.value)
    shown = "'ccc" if key == "claim" else f"(absent, so {fits.claim}c)"
    assert f"trainstack:storage.claim = {shown}" in text
    assert "allowed: at most 55 characters" in text
    fix = "`prepare: false`" if kind is StorageKind.CLAIM else f"`claim: {fits.claim}`"
    assert fix in text


@pytest.mark.parametrize("kind", StorageKind)
def test_only_a_folder_on_the_nodes_needs_one_of_them_named(kind: StorageKind) -> None:
    nodes = [node("a"), node("b")]
    if kind is StorageKind.HOST_PATH:
        with pytest.raises(ConfigError, match=r"storage\.node"):
            ensure_one_folder(of_kind(kind), nodes)
        return
    ensure_one_folder(of_kind(kind), nodes)
    with pytest.raises(ConfigError, match=r"(?s)storage\.shared.*kind is hostPath, or if a folder in job"):
        of_kind(kind, shared=True)
    with pytest.raises(ConfigError, match=r"storage\.node"):
        ensure_one_folder(with_data(kind), nodes)
    pinned = with_data(kind, node="b")
    ensure_one_folder(pinned, nodes)
    assert [volume.node for volume in volumes.data(pinned)] == ["b"]


@pytest.mark.parametrize("key", ["node", "shared"])
@pytest.mark.parametrize("kind", [each for each in StorageKind if each is not StorageKind.HOST_PATH])
def test_on_kind_all_nodes_have_the_folders_of_the_data(kind: StorageKind, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"storage\.{key} = "):
        of_kind(kind, "kind", **{key: "a" if key == "node" else True})


@pytest.mark.parametrize("kind", StorageKind)
def test_the_data_folder_needs_no_provisioner(kind: StorageKind) -> None:
    (found,) = volumes.data(with_data(kind))
    assert found.storage_class == "manual"


def test_the_last_look_asks_for_what_is_ours_alone() -> None:
    known = of_kind(StorageKind.CLAIM)
    assert list(inspection.cluster_findings(known, [])) == [
        "PersistentVolumeClaim theirs is missing",
        "PyTorchJob pytorch-simple is missing",
    ]


@pytest.mark.parametrize(("suspend", "prepare"), [(True, False), (True, True), (False, False)])
def test_a_claim_of_a_class_may_wait_for_a_suspended_jobs_pod(suspend: bool, prepare: bool) -> None:
    job = {"name": "mnist", "runPolicy": {"suspend": suspend}}
    storage = {"kind": "class", "storageClass": "fast", "prepare": prepare}
    known = stack("x", job=job, storage=storage, cluster={"kind": "existing"}, image=IMAGE)
    pending = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": known.claim},
        "status": {"phase": "Pending"},
    }
    there = {"kind": "PyTorchJob", "metadata": {"name": "mnist"}}
    waits = suspend and not prepare
    assert bool(list(inspection.cluster_findings(known, [pending, there]))) is not waits


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_claim_in_a_cluster_that_is_not_made_yet_is_refused(cluster: str) -> None:
    nowhere = look(kubeconfig="/nowhere/kubeconfig")
    if cluster == "existing":
        decision.ensure_usable(of_kind(StorageKind.CLAIM, cluster), nowhere, [])
        return
    with pytest.raises(
        ConfigError, match=r"(?s)storage\.claim = 'theirs'.*does not exist yet.*fix: use another storage.kind"
    ):
        decision.ensure_usable(of_kind(StorageKind.CLAIM, cluster), nowhere, [])
