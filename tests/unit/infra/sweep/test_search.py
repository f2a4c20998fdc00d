"""What a stack file asks `make sweep` for, and what makes it another search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra import dataset, paths
from infra.config import ConfigError, Stack
from infra.config.training import Dataset
from infra.sweep import search
from tests.unit.infra.samples import JOB, stack

LR = {"training.lr": {"min": 0.001, "max": 0.3, "log": True}}
EXISTING = {"cluster": {"kind": "existing"}, "image": {"repository": "registry.example/trainer"}}


def of(job: dict[str, Any] = JOB, options: Any = LR, image: Any = None, **others: Any) -> Stack:
    sections: dict[str, Any] = {"image": image} if image else {}
    return stack(job=job, sweep={"options": options, **others}, **sections)


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "DATA", tmp_path / "data")


def test_it_is_what_make_sweep_takes() -> None:
    options = {**LR, "training.batchSize": [32, 64], "training.epochs": {"min": 1, "max": 3}}
    found = search.search(of(options=options, parallel=2, objective="loss", name="rates"))
    study = found.pop("study")
    assert found == {
        "name": "rates",
        "job": "pytorch-simple-rates-",
        "namespace": "kubeflow",
        "resource": "pytorchjobs.v1.kubeflow.org",
        "metric": "test_loss",
        "objective": "loss",
        "folder": "sweep",
        "replaced": {"training.digitsEpochs": None},
    }
    assert len(study.pop("identity")) == search.DIGITS
    assert study == {
        "direction": "minimize",
        "options": {
            "training.batchSize": {"values": (32, 64)},
            "training.epochs": {"low": 1, "high": 3, "log": False, "whole": True},
            "training.lr": {"low": 0.001, "high": 0.3, "log": True, "whole": False},
        },
        "epochs": "training.epochs",
        "trials": 20,
        "parallel": 2,
        "prune": True,
        "seed": 0,
    }


def test_the_digits_epochs_are_replaced_where_the_file_has_them_and_epochs_are_searched() -> None:
    assert search.search(of())["replaced"] == {}
    without = {**JOB, "training": {"epochs": 1}}
    assert search.search(of(without, options={"training.epochs": [1, 2]}))["replaced"] == {}


@pytest.mark.parametrize(
    ("training", "found", "epochs"),
    [
        ({"epochs": 2}, Dataset.MNIST, 2),
        ({"epochs": 2}, Dataset.DIGITS, 2),
        ({"epochs": 2, "digitsEpochs": 5}, Dataset.MNIST, 2),
        ({"epochs": 2, "digitsEpochs": 5}, Dataset.DIGITS, 5),
        ({"digitsEpochs": 5}, Dataset.MNIST, None),
        ({}, Dataset.MNIST, None),
    ],
)
def test_the_study_knows_how_many_epochs_a_trial_has(
    monkeypatch: pytest.MonkeyPatch, training: dict[str, Any], found: Dataset, epochs: int | None
) -> None:
    monkeypatch.setattr(dataset, "resolve", lambda chosen, folder, root: found)
    job = {"name": "mnist", "training": {"dataset": "auto", **training}}
    assert search.study(of(job))["epochs"] == epochs


def with_training(**changes: Any) -> dict[str, Any]:
    return {**JOB, "training": {**JOB["training"], **changes}}


# It is the same search: more of it, or the same in another place.
SAME = {
    "more trials": of(trials=50),
    "more at once": of(parallel=4),
    "without pruning": of(prune=False),
    "another seed": of(seed=3),
    "another value of what is searched": of(with_training(lr=0.7)),
    "other resources": of({**JOB, "resources": {"cpu": "2"}}),
    "another name of the job": of({**JOB, "name": "other"}),
}
ANOTHER = {
    "other ends": of(options={"training.lr": {"min": 0.001, "max": 0.2, "log": True}}),
    "equal differences": of(options={"training.lr": {"min": 0.001, "max": 0.3}}),
    "a further option": of(options={**LR, "training.seed": [1, 2]}),
    "another objective": of(objective="loss"),
    "more epochs": of(with_training(digitsEpochs=3)),
    "another data set": of(with_training(dataset="mnist")),
    "more replicas": of({**JOB, "replicas": {"master": 1, "worker": 3}}),
    "another variable": of({**JOB, "env": {"A": "b"}}),
    "another image": of(image={"reference": "registry.example/other@sha256:" + "1" * 64}),
}


@pytest.mark.parametrize("change", SAME)
def test_a_search_goes_on(change: str) -> None:
    assert search.identity(SAME[change]) == search.identity(of())


@pytest.mark.parametrize("change", ANOTHER)
def test_trials_that_cannot_be_compared_are_of_another_search(change: str) -> None:
    assert search.identity(ANOTHER[change]) != search.identity(of())


def test_data_that_came_make_it_another_search(monkeypatch: pytest.MonkeyPatch) -> None:
    before = search.identity(of())
    monkeypatch.setattr(dataset, "resolve", lambda chosen, folder, root: Dataset.KMNIST)
    assert search.identity(of()) != before


SWEEP: dict[str, Any] = {"sweep": {"options": LR}}
CLASS = {"storage": {"kind": "class", "storageClass": "x"}}


@pytest.mark.parametrize(
    ("sections", "key", "fix"),
    [
        ({}, "trainstack:sweep = (absent)", "docs/sweep.md"),
        ({**SWEEP, **EXISTING}, "trainstack:cluster.kind = (existing", "make promote"),
        ({**SWEEP, **CLASS}, "with storage.kind class", "make promote"),
    ],
)
def test_a_search_that_cannot_be_done_here_is_refused(sections: dict[str, Any], key: str, fix: str) -> None:
    with pytest.raises(ConfigError) as refused:
        search.search(stack(job=JOB, **sections))
    assert key in str(refused.value)
    assert fix in str(refused.value)
