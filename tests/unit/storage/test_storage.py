"""PersistentVolume, claim, and the folder behind them."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from storage import directory
from storage.directory import job
from storage.manifests import (
    Volume,
    host_path,
)

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
    "users": [1000, 2000],
}


def modes(folder: Path) -> dict[str, int]:
    return {
        str(each.relative_to(folder)): stat.S_IMODE(each.lstat().st_mode)
        for each in sorted(folder.rglob("*"))
        if not each.is_symlink()
    }


def prepared(folder: Path, mode: str = "2775") -> None:
    own = folder.stat()
    subprocess.run(directory.script(str(folder), own.st_uid, own.st_gid, mode), check=True)


@pytest.mark.parametrize("mode", ["2775", "2770"])
def test_the_group_may_write_in_runs_that_a_user_has_kept_it_out_of(tmp_path: Path, mode: str) -> None:
    """As release 0.1 left them: of umask 022, in folders that took the volume's group."""
    run = tmp_path / "models" / "runs" / "mnist-0a1b2c3d"
    run.mkdir(parents=True)
    for folder in (run, run.parent):
        folder.chmod(0o2755)
    for name, bits in (("metrics.jsonl", 0o644), ("private", 0o600), ("script", 0o755)):
        (run / name).touch()
        (run / name).chmod(bits)
    prepared(tmp_path / "models", mode)
    assert modes(tmp_path / "models") == {
        "runs": 0o2775,
        "runs/mnist-0a1b2c3d": 0o2775,
        "runs/mnist-0a1b2c3d/metrics.jsonl": 0o664,
        "runs/mnist-0a1b2c3d/private": 0o660,
        "runs/mnist-0a1b2c3d/script": 0o775,
    }


def test_what_is_not_of_a_run_stays_as_it_is(tmp_path: Path) -> None:
    """Neither a file beside the runs is touched, nor one that a link in their place leads to."""
    folder, others = tmp_path / "models", tmp_path / "others"
    for file in (folder / "data" / "theirs", folder / "mnist_cnn.pt", others / "secret"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(0o600)
    before = modes(tmp_path)
    for place in ("runs", "runs/link"):
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).symlink_to(others / "secret" if place == "runs/link" else others)
        prepared(folder)
        (folder / place).unlink()
        (folder / "runs").mkdir(exist_ok=True)
    found = modes(tmp_path)
    assert {name: found[name] for name in before if name != "models"} == {
        name: bits for name, bits in before.items() if name != "models"
    }


def test_a_trainer_that_renames_its_files_meanwhile_does_no_harm(tmp_path: Path) -> None:
    """chmod fails at a file that has gone between its two looks; here the first look of each fails."""
    (tmp_path / "models" / "runs").mkdir(parents=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("chgrp", "chmod"):
        first = '#!/bin/sh\n[ "$1" = -R ] && [ ! -e "$0.seen" ] && { touch "$0.seen"; exit 1; }\n'
        (programs / name).write_text(f'{first}exec {shutil.which(name)} "$@"\n')
        (programs / name).chmod(0o755)
    own = (tmp_path / "models").stat()
    words = directory.script(str(tmp_path / "models"), own.st_uid, own.st_gid, "2775")
    subprocess.run(words, check=True, env={"PATH": f"{programs}:/usr/bin:/bin"})
    assert sorted(each.name for each in programs.glob("*.seen")) == ["chgrp.seen", "chmod.seen"]


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
    tried = [words[1] for words in asked if "test" in words]
    assert tried == (["1000:0", "2000:0"] if writable else ["1000:0"]), "each user of a job, until one cannot"


@pytest.mark.parametrize(
    ("key", "value"), [("mode", "2770"), ("owner", 7), ("instance", "two"), ("users", [3000])]
)
def test_a_changed_property_is_a_difference(key: str, value: Any) -> None:
    assert directory.DirectoryProvider().diff("x", PROPS, PROPS | {key: value}).changes
    assert directory.DirectoryProvider().diff("x", PROPS, PROPS).changes is False


def test_elsewhere_a_job_prepares_the_folder_with_no_more_rights_than_that_takes() -> None:
    pod = job(TRAINDB, "image", 1000, 5000, "2775", [1000, 2000], {})["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["command"][-4:] == ["/volume", "1000", "5000", "2775"]
    assert container["securityContext"]["runAsGroup"] == 5000, "or Linux drops the setgid bit"
    assert pod["metadata"]["annotations"] == {"trainstack/users": "1000 2000"}
    assert container["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["CHOWN", "FOWNER", "DAC_OVERRIDE"],
    }
