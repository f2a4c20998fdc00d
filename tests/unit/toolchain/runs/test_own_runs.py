"""Runs of programs that are not our trainer: what `make runs`, `compare`, `use` and the report read of their record."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from tests.unit.toolchain.runs.conftest import Models, epoch
from tests.unit.toolchain.runs.test_report_timeline import Tags
from toolchain.checks import stack_changes
from toolchain.operating import environment, program_calls, state
from toolchain.runs import comparison, listing, records, report_timeline
from toolchain.steps import SetupError
from toolchain.tools import venv

IMAGE = "registry/own@sha256:1"
PRINTED = [
    {"at": "2026-01-01T00:00:03Z", "epoch": 1, "loss": 0.5, "val_acc": 0.7},
    {"at": "2026-01-01T00:00:08Z", "epoch": 2, "loss": 0.25, "val_acc": 0.8},
    {"at": "2026-01-01T00:00:09Z", "accuracy": 0.9},
]


def own(
    models: Models,
    name: str,
    *printed: dict[str, Any],
    outcome: str | None = "Succeeded",
    model: str | None = "quarters.safetensors",
    command: tuple[str, ...] = ("python3", "train.py"),
    **environment: str,
) -> Path:
    folder = models.folder / "dev" / "runs" / name
    folder.mkdir(parents=True)
    told = {
        "job": "quarters",
        "uid": "u",
        "model": model,
        "configuration": {
            "image": IMAGE,
            "command": command,
            "processes": 2,
            "environment": {"TOKEN": "(secret login, key token)", **environment},
        },
        "started": "2026-01-01T00:00:02Z",
        "end": "2026-01-01T00:00:12Z" if outcome else None,
        "outcome": outcome,
        "message": "BackoffLimitExceeded <x>" if outcome == "Failed" else "",
    }
    (folder / agreed.RECORD).write_text(json.dumps(told))
    (folder / agreed.PRINTED).write_text("".join(f"{json.dumps(line)}\n" for line in printed or PRINTED))
    (folder / "quarters-master-0.log").write_text("== pod <x> ==\n2026-01-01T00:00:03Z epoch 1: loss=0.5\n")
    if model:
        (folder / model).write_text(name)
        models.minutes += 1
        os.utime(folder / model, (60 * models.minutes, 60 * models.minutes))
    return folder


def test_its_results_are_what_it_printed_last(models: Models) -> None:
    run = records.read(own(models, "quarters-1"))
    assert (run.accuracy, run.loss, run.epochs, run.seconds, run.results) == (
        0.9,
        0.25,
        2,
        10.0,
        {"val_acc": 0.8},
    )
    assert (run.is_finished, run.model) == (True, run.folder / "quarters.safetensors")
    assert run.config == {
        "command": "python3 train.py",
        "world_size": 2,
        "env TOKEN": "(secret login, key token)",
    }


@pytest.mark.parametrize(
    ("outcome", "model", "finished", "cell"),
    [
        ("Succeeded", "own.pt", True, "3"),
        ("Succeeded", None, True, "3"),
        ("Failed", "own.pt", False, "3 Failed"),
        ("Deleted", None, False, "3 Deleted"),
        (None, "own.pt", False, "3 not ended"),
    ],
)
def test_whether_it_is_finished_is_what_its_job_says(
    models: Models, outcome: str | None, model: str | None, finished: bool, cell: str
) -> None:
    run = records.read(
        own(models, "quarters-1", {"at": "x", "epoch": 3, "accuracy": 0.9}, outcome=outcome, model=model)
    )
    assert run.is_finished is finished
    row = dict(zip(listing.HEAD, listing.row(run), strict=True))
    assert (row["data"], row["network"], row["epochs"], row["ranks"]) == ("-", "python3 train.py", cell, "2")
    assert "?" not in "".join(row.values())
    assert listing.as_record(run)["finished"] is finished


def test_when_it_has_ended_is_told_by_its_files_else_by_its_record(models: Models) -> None:
    assert records.read(own(models, "quarters-1")).ended.timestamp() == 60
    assert records.read(own(models, "quarters-2", model=None)).ended.timestamp() == 1767225612


def test_its_model_is_known_by_the_name_that_the_stack_gives_it(
    models: Models, capsys: pytest.CaptureFixture[str]
) -> None:
    run = own(models, "quarters-1")
    (models.folder / "dev" / "quarters.safetensors").write_text("quarters-1")
    assert records.read(run).is_current
    listing.show_models(as_json=False)
    assert "quarters-1" in capsys.readouterr().out


def test_two_programs_differ_in_what_they_are_and_reach(models: Models) -> None:
    own(models, "one-1", LR="0.1")
    own(models, "two-2", {"at": "x", "accuracy": 0.5, "f1": 0.4}, command=("torchrun", "b.py"), LR="0.2")
    lines = comparison.differences(records.find("one-1"), records.find("two-2"))
    cells = {re.split(r"  +", line)[0]: re.split(r"  +", line)[1:] for line in lines[1:]}
    assert cells == {
        "command": ["python3 train.py", "torchrun b.py"],
        "env LR": ["0.1", "0.2"],
        "epochs done": ["2", "0"],
        "accuracy": ["0.9", "0.5"],
        "loss": ["0.25", "-"],
        "val_acc": ["0.8", "-"],
        "f1": ["-", "0.4"],
    }
    page = comparison.page(records.find("one-1"), records.find("two-2"))
    assert all(
        f"<figcaption>{title}</figcaption>" in page
        for title in ("val_acc", "f1", "Loss on training examples")
    )


def test_the_curves_are_by_step_where_one_is_told(models: Models) -> None:
    plain = records.read(own(models, "one-1"))
    assert [line["step"] for line in records.metrics(plain)] == [1, 2, 3]
    lines = [{"at": "x", "step": 40, "loss": 1.0}, {"at": "x", "accuracy": 0.5}]
    assert [line["step"] for line in records.metrics(records.read(own(models, "two-2", *lines)))] == [40, 40]


def test_a_run_of_our_trainer_is_as_it_was_with_a_record_beside_it(models: Models) -> None:
    folder = models.run("mnist-1", epoch(1, 0.9), weights="first")
    before = records.read(folder)
    record = own(models, "other-1", outcome="Failed", model=None)
    for file in record.iterdir():
        file.rename(folder / file.name)
    after = records.read(folder)
    assert listing.row(after) == listing.row(before)
    assert (after.config, after.results, after.is_finished) == (before.config, {}, True)
    assert [line.split()[0] for line in comparison.differences(before, after)[1:]] == ["image"], (
        "which it adds"
    )


def test_a_run_json_of_the_programs_own_is_no_record(models: Models) -> None:
    folder = own(models, "quarters-1")
    (folder / agreed.RECORD).write_text('{"outcome": "Succeeded"}')
    assert (records.read(folder).told, records.read(folder).config) == ({}, {})


@pytest.mark.parametrize(
    ("outcome", "model", "said"),
    [
        ("Failed", "own.pt", "is not finished"),
        (None, "own.pt", "is not finished"),
        ("Succeeded", None, "no model"),
    ],
)
def test_only_a_finished_run_with_a_model_is_used(
    models: Models, outcome: str, model: str, said: str
) -> None:
    own(models, "quarters-01234567", outcome=outcome, model=model)
    with pytest.raises(SetupError, match=said):
        stack_changes._run_of("dev", "quarters-01234567")


def test_a_finished_one_is_used(models: Models) -> None:
    own(models, "quarters-01234567")
    assert stack_changes._run_of("dev", "quarters-0") == "quarters-01234567"


def test_it_gets_a_report_with_curves_log_and_program(models: Models) -> None:
    folder = own(models, "quarters-1", outcome="Failed")
    (folder / agreed.TIMELINE).write_text(json.dumps([["2026-01-01T00:00:01Z", "job quarters", "Created"]]))
    report_timeline.complete([folder])
    text = (folder / agreed.REPORT).read_text()
    for each in (
        "Failed",
        "BackoffLimitExceeded &lt;x&gt;",
        "python3 train.py",
        "(secret login, key token)",
        IMAGE,
    ):
        assert each in text
    assert "== pod &lt;x&gt; ==" in text
    assert "<figcaption>val_acc</figcaption>" in text
    assert "What happened to job and pods" in text
    tags = Tags()
    tags.feed(re.sub(r"<(meta|!doctype)[^>]*>", "", text))
    assert tags.open == []
    assert records.read(folder).ended.timestamp() == 60, "the report does not move the end"
    before = text
    report_timeline.complete([folder])
    assert (folder / agreed.REPORT).read_text() == before, "once more changes nothing"


def test_a_report_of_the_programs_own_stays(models: Models) -> None:
    folder = own(models, "quarters-1")
    (folder / agreed.REPORT).write_text("<html>mine</html>")
    report_timeline.complete([folder])
    assert (folder / agreed.REPORT).read_text() == "<html>mine</html>"


@pytest.mark.parametrize(
    ("end", "uid", "asked"), [(True, "u", False), (False, "u", True), (True, "new", True)]
)
def test_a_destruction_asks_for_jobs_without_an_end_alone(
    models: Models, monkeypatch: pytest.MonkeyPatch, end: bool, uid: str, asked: bool
) -> None:
    monkeypatch.setattr(state, "MODELS", models.folder)
    own(models, "quarters-1", outcome="Failed" if end else None)
    metadata = {"namespace": "n", "name": "quarters", "uid": uid, "labels": {"trainstack/run": "quarters-1"}}
    outputs = {"kind": "PyTorchJob", "metadata": metadata}
    deployment = {"resources": [{"type": state.JOBS[0], "urn": "urn", "outputs": outputs}]}
    job = {"kind": "PyTorchJob", "namespace": "n", "name": "quarters", "uid": uid, "run": "quarters-1"}
    assert state.unfollowed(deployment, "dev") == [job] * asked


def test_what_fails_there_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise SetupError("no Python")

    monkeypatch.setattr(venv, "program", fails)
    monkeypatch.setattr(environment, "for_child", dict)
    program_calls.keep_unfollowed({}, "dev", [])
    assert capsys.readouterr() == ("", "")
    program_calls.keep_unfollowed({}, "dev", [{"name": "quarters"}])
    assert "the logs of these jobs are not kept: no Python" in "".join(capsys.readouterr())
