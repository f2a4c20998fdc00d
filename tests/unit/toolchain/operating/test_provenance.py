"""Commit and image of a run: what Git says of the clone, and which runs get it beside them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from infra.objects import labels
from tests.unit.toolchain.conftest import commit_all, git
from toolchain.operating import (
    doctor,
    program_calls,
    provenance,
    pulumi_cli,
    setup,
    state,
    time_estimate,
    up,
    user_backend,
)
from toolchain.runs import records

KEPT = {"commit": "0123456789abcdef", "clean": True, "image": "sha256:1"}
SOURCE = {"commit": "0123456789abcdef", "clean": True, "began": 999}


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("GIT_")]:  # those of a hook, for example
        monkeypatch.delenv(name)
    folder = tmp_path / "a clone"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / ".gitignore").write_text("/models/\n")
    commit_all(folder, "begin")
    return folder


def test_a_clean_clone(clone: Path) -> None:
    (clone / "models").mkdir()
    (clone / "models" / "ignored").touch()
    assert provenance.of_clone(clone) == {"commit": git(clone, "rev-parse", "HEAD").strip(), "clean": True}


def test_no_clone_or_a_folder_within_somebody_elses(clone: Path, tmp_path: Path) -> None:
    inner = clone / "unpacked"
    inner.mkdir()
    unknown = {"commit": None, "clean": None}
    assert provenance.of_clone(inner) == unknown
    assert provenance.of_clone(tmp_path) == unknown


def test_a_machine_without_git(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(clone))
    assert provenance.of_clone(clone) == {"commit": None, "clean": None}


def test_a_clone_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert provenance.of_clone(tmp_path)["commit"] is None


def run(folder: Path, *files: str, at: int = 1000) -> Path:
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).touch()
        os.utime(folder / name, (at, at))
    return folder


def test_it_is_kept_beside_a_run_that_was_trained_now(tmp_path: Path) -> None:
    folder = run(tmp_path / "runs" / "mnist-1", "checkpoint.pt", "mnist_cnn.pt")
    provenance.keep([folder, tmp_path / "runs" / "elsewhere"], [SOURCE], "sha256:1")
    assert json.loads((folder / "origin.json").read_text()) == KEPT
    found = records.read(folder)
    assert (found.origin, found.commit) == (KEPT, "01234567")
    assert found.ended.timestamp() == 1000, "the model is still the last of the run's files"
    assert str(KEPT["commit"]) in (folder / "README.md").read_text()
    assert not (tmp_path / "runs" / "elsewhere").exists()


def test_it_is_not_kept_of_a_run_that_was_trained_before(tmp_path: Path) -> None:
    """A finished run that reports again writes its model again, and trains no more."""
    older = run(tmp_path / "runs" / "older", "checkpoint.pt", at=500)
    (older / "mnist_cnn.pt").touch()
    foreign = run(tmp_path / "runs" / "foreign", "mnist_cnn.pt", at=500)
    unfinished = run(tmp_path / "runs" / "unfinished", "checkpoint.pt")
    provenance.keep([older, foreign, unfinished], [SOURCE], "sha256:1")
    assert list(tmp_path.rglob("origin.json")) == []


def test_it_is_kept_of_a_script_of_ones_own(tmp_path: Path) -> None:
    folder = run(tmp_path / "runs" / "own", "other.pt")
    provenance.keep([folder], [SOURCE], "sha256:1")
    assert records.read(folder).origin == KEPT


def test_a_make_up_that_was_killed_before_the_card_is_finished_by_the_next(tmp_path: Path) -> None:
    folder = run(tmp_path / "runs" / "mnist-1", "checkpoint.pt", "mnist_cnn.pt")
    provenance.keep([folder], [SOURCE], "sha256:1")
    (folder / "README.md").unlink()
    provenance.keep([folder], [{"commit": "other", "clean": True, "began": 10**6}], "sha256:2")
    assert records.read(folder).origin == KEPT
    assert str(KEPT["commit"]) in (folder / "README.md").read_text()


def test_what_is_known_stays(tmp_path: Path) -> None:
    folder = run(tmp_path / "runs" / "mnist-1", "checkpoint.pt", "mnist_cnn.pt")
    for commit in ("first", "second"):
        provenance.keep([folder], [{**SOURCE, "commit": commit}], "sha256:1")
    assert records.read(folder).commit == "first"


@pytest.mark.parametrize(
    ("ended", "expected"), [(500, ""), (1500, "first"), (2500, "second"), (9000, "third")]
)
def test_a_run_belongs_to_the_last_make_up_before_its_end(tmp_path: Path, ended: int, expected: str) -> None:
    """The first two were killed, and the third finds what their jobs have done meanwhile."""
    folder = run(tmp_path / "runs" / "mnist-1", "checkpoint.pt", "mnist_cnn.pt", at=ended)
    sources = [
        {"commit": commit, "clean": True, "began": began}
        for commit, began in (("first", 1000), ("second", 2000), ("third", 3000))
    ]
    provenance.keep([folder], sources, None)
    assert records.read(folder).commit == expected


def test_what_a_killed_make_up_began_with_is_known_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "BEGUN", tmp_path / "begun")
    (first,) = provenance.begin("dev")
    again = provenance.begin("dev")
    assert again[0] == first
    assert [first["began"] <= each["began"] for each in again] == [True, True]
    assert len(provenance.begin("gpu")) == 1, "another stack's"
    for _ in range(provenance.MOST_SOURCES + 5):
        many = provenance.begin("dev")
    assert len(many) == provenance.MOST_SOURCES
    provenance.end("dev")
    assert len(provenance.begin("dev")) == 1
    provenance.end("dev")
    provenance.end("dev")


@pytest.mark.parametrize("damage", ["", "{", "5", '[{"commit": "x"}]', "\0"])
def test_a_damaged_note_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setattr(provenance, "BEGUN", tmp_path)
    (tmp_path / "dev.json").write_text(damage)
    assert len(provenance.begin("dev")) == 1


def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "origin.json")

    monkeypatch.setattr(provenance, "write_whole", refuse)
    provenance.keep([run(tmp_path / "mnist-1", "mnist_cnn.pt")], [SOURCE], "sha256:1")
    assert "mnist-1 are not kept beside it: [Errno 13] Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ({}, ""),
        ({"commit": None, "clean": None}, ""),
        ({"commit": 5}, ""),
        ({"commit": "0123456789"}, "01234567+"),
        ({"commit": "0123456789", "clean": False}, "01234567+"),
        ({"commit": "0123456789", "clean": True}, "01234567"),
    ],
)
def test_the_commit_in_short(tmp_path: Path, kept: dict[str, object], shown: str) -> None:
    folder = run(tmp_path / "runs" / "mnist-1", "mnist_cnn.pt")
    (folder / "origin.json").write_text(json.dumps(kept))
    assert records.read(folder).commit == shown


def job(kind: str = state.JOBS[0], **inputs: object) -> dict[str, object]:
    return {"urn": "u", "type": kind, "inputs": inputs}


def labelled(run_id: str, kind: str = state.JOBS[0]) -> dict[str, object]:
    return job(kind, metadata={"labels": {labels.RUN: run_id}})


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([], []),
        ([{"urn": "u", "type": "pulumi:pulumi:Stack"}], []),
        ([labelled("a-1"), labelled("b-2")], ["a-1", "b-2"]),
        ([labelled("a-1", kind) for kind in state.JOBS], ["a-1"]),
        ([job(), job(metadata={}), job(metadata={"labels": {}})], []),
    ],
)
def test_the_runs_of_a_state(resources: list[dict[str, object]], expected: list[str]) -> None:
    assert state.runs({"resources": resources}) == expected


def test_the_reports_come_before_the_four_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = {
        "jobName": "a",
        "modelPath": "models/dev/m.pt",
        "namespace": "kubeflow",
        "imageDigest": "sha256:2",
    }
    stack = {"type": state.STACK, "outputs": outputs}
    deployment = {"resources": [labelled("a-1"), labelled("elsewhere-2"), stack]}
    folder = tmp_path / "dev" / "runs" / "a-1"

    def update(*_: object) -> None:
        run(folder, "report.html", "mnist_cnn.pt", at=2**33)

    for module, name, value in (
        (up, "MODELS", tmp_path),
        (provenance, "BEGUN", tmp_path / "begun"),
        (up, "prepare_stack", lambda _: {}),
        (up, "_forget_left_behind", lambda *_: False),
        (pulumi_cli, "deployment", lambda *_: deployment),
        (state, "objects", lambda _: []),
        (doctor, "ensure_node_possible", lambda *_: None),
        (up, "_update", update),
        (program_calls, "inspect", lambda *_: None),
        (time_estimate, "estimate", lambda _: ""),
        (user_backend, "check", lambda _: None),
        (setup, "LOCAL", tmp_path / "local"),
    ):
        monkeypatch.setattr(module, name, value, raising=name != "LOCAL")
    up.up("dev", None, lambda _: lambda: None)
    *_, report, first, model, accuracy, loss = capsys.readouterr().out.splitlines()
    assert report == f"report: {folder / 'report.html'}"
    assert [line.split(":")[0].split("=")[0] for line in (first, model, accuracy, loss)] == [
        *("job", "model", "accuracy", "loss")
    ]
    assert records.read(folder).origin["image"] == "sha256:2"
