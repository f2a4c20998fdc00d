"""PersistentVolume, claim, and the folder behind them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage import directory
from storage.manifests import (
    Claim,
    ProvisionedClaim,
    Volume,
    host_path,
    manifests,
    nfs,
    persistent_volume,
    persistent_volume_claim,
)
from storage.preparation import job

TRAINDB = Volume(
    name="traindb-models-volume",
    claim="traindb-models-claim",
    namespace="kubeflow",
    source=host_path("/var/lib/trainstack/models"),
    capacity="10Gi",
    request="3Gi",
    access_mode="ReadWriteMany",
    storage_class="manual",
    reclaim_policy="Retain",
    labels={"type": "traindb", "name": "traindb-models-volume"},
)
PROPS: dict[str, Any] = {
    "node": "n",
    "instance": "one",
    "path": "/models",
    "owner": 1000,
    "group": 0,
    "mode": "2775",
}


def test_the_published_volume() -> None:
    volume = persistent_volume(TRAINDB)
    assert volume["metadata"] == {
        "name": "traindb-models-volume",
        "labels": {"type": "traindb", "name": "traindb-models-volume"},
    }
    assert volume["spec"] == {
        "storageClassName": "manual",
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": "/var/lib/trainstack/models"},
        "claimRef": {"namespace": "kubeflow", "name": "traindb-models-claim"},
    }


def test_the_published_claim_selects_by_both_labels() -> None:
    claim = persistent_volume_claim(TRAINDB)
    assert claim["metadata"] == {"name": "traindb-models-claim", "namespace": "kubeflow"}
    assert claim["spec"]["resources"] == {"requests": {"storage": "3Gi"}}
    assert claim["spec"]["selector"] == {"matchLabels": {"type": "traindb", "name": "traindb-models-volume"}}


def test_a_volume_of_an_nfs_server_is_published_alike() -> None:
    local = persistent_volume(TRAINDB)["spec"]
    there = replace(TRAINDB, source=nfs("nfs.example", "/exports"))
    spec = persistent_volume(there)["spec"]
    assert spec.pop("nfs") == {"server": "nfs.example", "path": "/exports"}
    assert spec == {key: value for key, value in local.items() if key != "hostPath"}
    assert persistent_volume_claim(there) == persistent_volume_claim(TRAINDB)
    assert there.fixed != TRAINDB.fixed


def test_a_provisioned_claim_selects_no_volume_and_is_not_waited_for() -> None:
    claim = ProvisionedClaim(
        claim="models", namespace="team", request="3Gi", access_mode="ReadWriteOnce", storage_class="fast"
    )
    (made,) = manifests(claim)
    assert made["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    assert made["spec"] == {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "3Gi"}},
    }


def test_of_somebody_elses_claim_nothing_is_ours() -> None:
    assert manifests(Claim(claim="models", namespace="team")) == []


def test_a_volume_of_one_node_is_bound_to_it() -> None:
    term = persistent_volume(replace(TRAINDB, node="a"))["spec"]["nodeAffinity"]["required"][
        "nodeSelectorTerms"
    ][0]
    assert term["matchExpressions"][0]["values"] == ["a"]


def test_the_script_sets_owner_and_mode_and_keeps_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "mnist_cnn.pt").write_text("kept")
    owner = folder.stat()
    subprocess.run(directory.script(str(folder), owner.st_uid, owner.st_gid, "2775"), check=True)
    assert folder.stat().st_mode & 0o7777 == 0o2775
    assert (folder / "mnist_cnn.pt").read_text() == "kept"


def test_a_node_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(args, 1, "", "read-only file system")

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(directory.DirectoryError, match="/models on node n: read-only"):
        directory.prepare(PROPS)


@pytest.mark.parametrize("writable", [True, False])
def test_a_file_system_without_owners_will_do_where_the_trainer_can_write(
    monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    asked: list[list[str]] = []

    def refuse(words: list[str], **kwargs: Any) -> subprocess.CompletedProcess[str]:
        asked.append(words[2:])
        is_fine = writable and "test" in words
        return subprocess.CompletedProcess(words, int(not is_fine), "", "Operation not permitted")

    monkeypatch.setattr(subprocess, "run", refuse)
    if writable:
        assert directory.prepare(PROPS) == PROPS
    else:
        with pytest.raises(directory.DirectoryError, match="Operation not permitted"):
            directory.prepare(PROPS)
    trainer = f"{PROPS['owner']}:{PROPS['group']}"
    assert asked[-1] == ["--user", trainer, "n", "test", "-w", PROPS["path"]]


@pytest.mark.parametrize(("key", "value"), [("mode", "2770"), ("owner", 7), ("instance", "two")])
def test_a_changed_property_is_a_difference(key: str, value: Any) -> None:
    assert directory.DirectoryProvider().diff("x", PROPS, PROPS | {key: value}).changes
    assert directory.DirectoryProvider().diff("x", PROPS, PROPS).changes is False


def test_elsewhere_a_job_prepares_the_folder_with_no_more_rights_than_that_takes() -> None:
    container = job(TRAINDB, "image", 1000, 0, "2775", {})["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][-3:] == ["/volume", "1000:0", "2775"]
    assert container["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["CHOWN", "FOWNER", "DAC_OVERRIDE"],
    }
