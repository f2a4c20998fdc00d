"""Runs as their folders tell of them: finished, on their way, torn, and empty."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolchain.runs.conftest import Models, epoch
from toolchain import __main__ as command
from toolchain.runs import comparison, listing, records
from toolchain.steps import SetupError


@pytest.fixture
def three(models: Models) -> Models:
    models.run("mnist-1", epoch(1, 0.9), epoch(2, 0.97), weights="first", lr=0.02)
    models.run("mnist-2", epoch(1, 0.95), epoch(2, 0.99), weights="second")
    models.run("mnist-3", epoch(1, 0.5), stack="gpu")
    (models.folder / "dev" / "mnist_cnn.pt").write_text("first")
    return models


def test_a_run_that_is_being_removed_is_none(three: Models) -> None:
    three.run(".removed-mnist-0", epoch(1, 0.9), weights="old")
    assert [run.name for run in records.all_runs()] == ["mnist-1", "mnist-2", "mnist-3"]


def test_a_finished_run_and_one_on_its_way(three: Models) -> None:
    first, second, third = records.all_runs()
    assert (first.stack, first.name, first.epochs, first.accuracy, first.seconds) == (
        "dev",
        "mnist-1",
        2,
        0.97,
        20.0,
    )
    assert first.model == first.folder / "mnist_cnn.pt"
    assert (third.model, third.epochs, third.accuracy) == (None, 1, 0.5)
    assert [run.is_current for run in (first, second, third)] == [True, False, False]


def test_a_model_that_is_a_link_to_its_runs_is_current(models: Models) -> None:
    run = models.run("mnist-1", epoch(2, 0.97), weights="first")
    os.link(run / "mnist_cnn.pt", models.folder / "dev" / "mnist_cnn.pt")
    assert records.read(run).is_current


@pytest.mark.parametrize("damage", ["config.json", "metrics.jsonl"])
@pytest.mark.parametrize("left", [None, "", '{"half": ', "[]\n"])
def test_what_is_missing_or_torn_tells_nothing(
    models: Models, capsys: pytest.CaptureFixture[str], damage: str, left: str | None
) -> None:
    file = models.run("mnist-1", epoch(2, 0.97), weights="first") / damage
    file.unlink() if left is None else file.write_text(left)
    listing.show(None, "ended", as_json=False)
    assert "mnist-1" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line", [b"5", b'"accuracy"', b"null", b'["accuracy"]', b"\xff\xfe accuracy", b'{"\xff": 1}']
)
def test_a_line_that_is_no_record_is_left_out(models: Models, line: bytes) -> None:
    run = models.run("mnist-1", epoch(2, 0.97), weights="first")
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(line + b"\n")
    (found,) = records.all_runs()
    assert (found.epochs, found.accuracy) == (2, 0.97)


@pytest.mark.parametrize(
    "value",
    ["high", [1], {}, True, None, float("nan"), float("inf"), 10**400],
    ids=["text", "list", "mapping", "bool", "null", "nan", "infinity", "huge"],
)
@pytest.mark.parametrize("key", ["epoch", "accuracy", "test_loss", "training_s"])
def test_what_is_no_number_tells_nothing(
    models: Models, capsys: pytest.CaptureFixture[str], key: str, value: object
) -> None:
    models.run("mnist-1", epoch(1, 0.9), weights="first")
    models.run("mnist-2", {**epoch(2, 0.97), key: value}, weights="second")
    found = records.find("mnist-2")
    number = {
        "epoch": found.epochs,
        "accuracy": found.accuracy,
        "test_loss": found.loss,
        "training_s": found.seconds,
    }
    assert number[key] == (0 if key == "epoch" else None)
    for order in listing.ORDERS:
        listing.show(None, order, as_json=False)
        assert "mnist-2" in capsys.readouterr().out
    assert comparison.differences(records.find("mnist-1"), found)


@pytest.mark.parametrize("asked", ["is_dir", "iterdir", "read_text", "stat"])
def test_a_run_that_goes_while_it_is_read_is_left_out(
    three: Models, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    there = getattr(Path, asked)

    def gone(path: Path, *arguments: Any, **options: Any) -> Any:
        run = three.folder / "dev" / "runs" / "mnist-2"
        if run in (path, path.parent):
            shutil.rmtree(run, ignore_errors=True)
        return there(path, *arguments, **options)

    monkeypatch.setattr(Path, asked, gone)
    assert [run.name for run in records.all_runs()] == ["mnist-1", "mnist-3"]


def test_a_file_that_goes_while_its_run_is_read_takes_nothing_with_it(
    three: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Path.is_file

    def gone(path: Path) -> bool:
        was = there(path)
        if path.name == "checkpoint.pt":
            path.unlink(missing_ok=True)
        return was

    monkeypatch.setattr(Path, "is_file", gone)
    assert [run.name for run in records.all_runs()] == ["mnist-1", "mnist-2", "mnist-3"]


def test_a_model_that_goes_while_it_is_compared_is_not_current(three: Models) -> None:
    first = records.find("mnist-1")
    (first.folder / "mnist_cnn.pt").unlink()
    assert not first.is_current


def test_an_empty_folder_is_a_run_that_has_told_nothing_yet(models: Models) -> None:
    (models.folder / "dev" / "runs" / "mnist-1").mkdir(parents=True)
    (run,) = records.all_runs()
    assert (run.config, run.epochs, run.accuracy, run.model) == ({}, 0, None, None)


def test_the_table(three: Models, capsys: pytest.CaptureFixture[str]) -> None:
    listing.show(None, "ended", as_json=False)
    head, first, second, third, legend = capsys.readouterr().out.splitlines()
    assert head.split() == " ".join(listing.HEAD).split()
    assert first.split()[0] == "*"
    assert [second.split()[index] for index in (2, 3, 4, 5, 6, 7, 8)] == [
        *("dev", "mnist-2", "mnist", "lenet", "2", "2", "0.9900"),
    ]
    assert "1 of 2" in third
    assert legend.startswith("* ")
    assert second.index("dev") == third.index("gpu") == head.index("stack")


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("ended", ["mnist-1", "mnist-2", "mnist-3"]),
        ("accuracy", ["mnist-3", "mnist-1", "mnist-2"]),
        ("loss", ["mnist-2", "mnist-1", "mnist-3"]),
        ("seconds", ["mnist-3", "mnist-1", "mnist-2"]),
        ("stack", ["mnist-1", "mnist-2", "mnist-3"]),
    ],
)
def test_the_order(
    three: Models, capsys: pytest.CaptureFixture[str], order: str, expected: list[str]
) -> None:
    listing.show(None, order, as_json=True)
    assert [run["run"] for run in json.loads(capsys.readouterr().out)] == expected


def test_every_order_takes_a_run_that_has_told_nothing(models: Models) -> None:
    models.run("mnist-1", epoch(2, 0.97), weights="first")
    (models.folder / "dev" / "runs" / "mnist-2").mkdir()
    for order in listing.ORDERS:
        listing.show(None, order, as_json=False)


def test_one_stacks_runs(three: Models, capsys: pytest.CaptureFixture[str]) -> None:
    listing.show("gpu", "ended", as_json=True)
    (run,) = json.loads(capsys.readouterr().out)
    assert (run["stack"], run["finished"], run["current"], run["config"]["lr"]) == ("gpu", False, False, 0.01)
    listing.show("nccl", "ended", as_json=False)
    assert capsys.readouterr().out == "stack nccl has no runs yet; `make up STACK=nccl` makes one\n"


def test_a_run_is_found_by_as_much_of_its_name_as_tells_it_apart(three: Models) -> None:
    assert records.find("mnist-2").name == "mnist-2"
    assert records.find("gpu").name == "mnist-3"
    with pytest.raises(
        SetupError, match=r"(?s)several runs are called mnist: .*dev/mnist-1.*fix: .*dev/<run>"
    ):
        records.find("mnist")
    with pytest.raises(SetupError, match=r"(?s)no run is called other.*`make runs`.*dev/mnist-1"):
        records.find("other")


def test_a_run_of_one_name_in_two_stacks(models: Models) -> None:
    models.run("mnist-1", epoch(2, 0.97), weights="first")
    models.run("mnist-1", epoch(2, 0.98), stack="gpu", weights="second")
    models.run("mnist-10", epoch(2, 0.98), stack="gpu", weights="second")
    assert records.find("gpu/mnist-1").accuracy == 0.98
    with pytest.raises(SetupError, match="several"):
        records.find("mnist-1")


def test_the_comparison_shows_what_differs_and_nothing_else(three: Models) -> None:
    lines = comparison.differences(records.find("mnist-1"), records.find("mnist-2"))
    assert [line.split() for line in lines] == [
        ["dev/mnist-1", "dev/mnist-2"],
        ["lr", "0.02", "0.01"],
        ["accuracy", "0.97", "0.99"],
        ["loss", "0.03", "0.01"],
    ]
    run = records.find("mnist-1")
    assert comparison.differences(run, run) == ["dev/mnist-1 and dev/mnist-1 do not differ"]


def test_the_commands(three: Models, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["runs", "--sort", "accuracy"]) == 0
    assert "mnist-2" in capsys.readouterr().out
    assert command.main(["compare", "--", "mnist-1", "gpu"]) == 0
    assert "epochs done" in capsys.readouterr().out
    assert command.main(["compare", "--", "mnist-1", ""]) == 1
    assert "make compare A=<run> B=<run>" in capsys.readouterr().err


def trial_of(
    models: Models, name: str, *epochs: dict[str, Any], stack: str = "dev", weights: str = ""
) -> Path:
    """A run that `make sweep` has begun: beside the stack's own, in a folder for them."""
    return models.run(name, *epochs, stack=f"{stack}/{records.TRIALS}", weights=weights)


def test_the_trials_of_a_search_are_listed_with_their_stack(
    models: Models, capsys: pytest.CaptureFixture[str]
) -> None:
    models.run("mnist-1", epoch(1, 0.8), weights="own")
    trial_of(models, "mnist-sweep-0-1", epoch(1, 0.9), weights="trial")
    trial_of(models, "mnist-sweep-1-1", epoch(1, 0.7))
    models.run("mnist-1", epoch(1, 0.8), stack="sweep", weights="another stack's")
    (models.folder / "dev" / "mnist_cnn.pt").write_text("own")
    (models.folder / "dev" / records.TRIALS / "mnist_cnn.pt").write_text("trial")
    (models.folder / "sweep" / "mnist_cnn.pt").write_text("another stack's")
    found = {run.name if run.is_trial else f"{run.stack}/{run.name}": run for run in records.all_runs()}
    assert found.keys() == {"dev/mnist-1", "mnist-sweep-0-1", "mnist-sweep-1-1", "sweep/mnist-1"}
    assert {run.stack for run in found.values() if run.is_trial} == {"dev"}
    assert {name for name, run in found.items() if run.is_current} == {"dev/mnist-1", "sweep/mnist-1"}
    listing.show("dev", "ended", False)
    assert "mnist-sweep-1-1" in capsys.readouterr().out
    assert records.find("dev/mnist-sweep-0-1").accuracy == 0.9


def test_a_stacks_model_is_none_of_its_trials(models: Models) -> None:
    """Byte for byte the same it may be: then it is listed."""
    trial_of(models, "mnist-sweep-0-1", epoch(1, 0.9), weights="trial")
    top = models.folder / "dev" / "mnist_cnn.pt"
    top.write_text("own")
    assert [runs for _, runs in listing.models()] == [[]]
    top.write_text("trial")
    assert [[run.name for run in runs] for _, runs in listing.models()] == [["mnist-sweep-0-1"]]
