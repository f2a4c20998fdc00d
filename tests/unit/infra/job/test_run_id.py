"""A run's id: another one exactly where the training is another one."""

from __future__ import annotations

from typing import Any

import pytest

from infra.config.job import JobConfig
from infra.config.storage import KeepRuns
from infra.config.training import Dataset, TrainingConfig
from infra.job.context import JobContext
from infra.job.run_id import run_id
from tests.unit.infra.samples import JOB, job_context

ANOTHER: dict[str, Any] = {
    "name": "other",
    "replicas": {"worker": 2},
    "command": ["python3", "other.py"],
    "args": ["--no-cuda"],
    "env": {"TRAINER_PRESET": "convnet"},
    "envFrom": [{"secret": "login"}],
    "nprocPerNode": 2,
    "rerun": 1,
    "runId": "other-0a1b2c3d",
    "training.epochs": 2,
    "training.batchSize": 32,
    "training.testBatchSize": 10,
    "training.lr": 0.5,
    "training.momentum": 0.1,
    "training.gamma": 0.5,
    "training.seed": 3,
    "training.logInterval": 5,
    "training.backend": "gloo",
    "data": [{"path": "/data", "claim": "images"}],
}
"""Keys of a job that decide its result, each with a value that differs from JOB's."""

THE_SAME: dict[str, Any] = {
    "restartPolicy": "Never",
    "resources": {"cpu": 2, "memory": "4Gi"},
    "runPolicy": {"backoffLimit": 1, "activeDeadlineSeconds": 60},
    "queue": "team-a",
    "priority": "urgent",
    "elasticPolicy": {"minReplicas": 1},
    "annotations": {"team": "vision"},
    "labels": {"team": "vision"},
    "user": 2000,
    "readOnlyRoot": False,
    "pod": {"spec": {"nodeSelector": {"disk": "fast"}}},
    "model": "other.pt",
    "egress": [{"port": 443}],
    "training.dataset": "auto",
    "training.digitsEpochs": 3,
}
"""Keys that leave it as it is. The data set counts as what it came to: see `test_the_data_set_counts`."""


def identified(context: JobContext | None = None, **changes: Any) -> str:
    given = {**JOB, "training": dict(JOB["training"])}
    for key, value in changes.items():
        section, _, inner = key.rpartition(".")
        (given[section] if section else given)[inner] = value
    return run_id(JobConfig.model_validate(given), context or job_context())


@pytest.mark.parametrize("key", ANOTHER)
def test_is_another_one(key: str) -> None:
    assert identified(**{key: ANOTHER[key]}) != identified()


@pytest.mark.parametrize("key", THE_SAME)
def test_stays(key: str) -> None:
    assert identified(**{key: THE_SAME[key]}) == identified()


def test_each_key_of_a_job_is_on_one_of_the_lists() -> None:
    training = {f"training.{field.alias}" for field in TrainingConfig.model_fields.values()}
    keys = {str(field.alias) for field in JobConfig.model_fields.values()} - {"training"}
    wanted = keys | training
    assert ANOTHER.keys() | THE_SAME.keys() == wanted, "does another value of the key make another run?"
    assert not ANOTHER.keys() & THE_SAME.keys()


SOURCES: list[dict[str, Any]] = [
    {"claim": "images"},
    {"claim": "others"},
    {"folder": "/srv/images"},
    {"nfs": {"server": "nfs.example", "path": "/images"}},
    {"nfs": {"server": "nfs.example", "path": "/others"}},
    {"configMap": "images"},
]


def test_each_source_of_data_counts_and_their_order() -> None:
    """The trainer reads the first."""
    one, other = ({"path": f"/{each['claim']}", **each} for each in SOURCES[:2])
    lists = [*([{"path": "/data", **each}] for each in SOURCES), [one, other], [other, one]]
    ids = {identified(data=each) for each in lists}
    assert len(ids | {identified()}) == len(lists) + 1


def test_where_the_pods_see_data_does_not_count() -> None:
    first, second = ([{"path": path, "claim": "images"}] for path in ("/data", "/elsewhere"))
    assert identified(data=first) == identified(data=second)


@pytest.mark.parametrize("data", [[], [{"path": "/data", "folder": "data"}]])
def test_data_of_the_clone_count_as_the_data_set_that_is_in_it(data: list[dict[str, Any]]) -> None:
    assert identified(data=data) == identified()


def test_the_data_set_counts() -> None:
    ids = {identified(job_context(dataset=chosen)) for chosen in (None, *Dataset)}
    assert len(ids) == len(Dataset) + 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "other") for name in ("namespace", "claim", "mount_path", "stack")),
        ("image", "elsewhere.example/trainer:tag"),
        *(("nodes", 3), ("keep_runs", KeepRuns(number=1))),
    ],
)
def test_where_it_runs_and_how_the_image_is_named_do_not(name: str, value: object) -> None:
    assert identified(job_context(**{name: value})) == identified()


def test_what_the_image_is_made_of_counts() -> None:
    assert identified(job_context(image_inputs="other")) != identified()
