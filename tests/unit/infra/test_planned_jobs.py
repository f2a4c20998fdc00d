"""What `make plan` is told of a stack's jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra import paths, planned_jobs
from infra.config import from_file
from infra.config.load import from_raw

STACKS = sorted((paths.ROOT / "stacks").glob("Pulumi.*.yaml"))
KEYS = {"name", "ranks", "cpus", "gpus", "backend", "here", "options"}


def told(job: dict[str, Any], **sections: Any) -> dict[str, Any]:
    stack = from_raw("test", {"job": {"name": "mnist", **job}, **sections}, "")
    return planned_jobs.planned(stack, stack.jobs[0])


@pytest.mark.parametrize("file", STACKS, ids=lambda file: file.stem)
def test_every_job_of_every_stack_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = file.stem.partition(".")[2]
    assert planned_jobs.main([name]) == 0
    found = json.loads(capsys.readouterr().out)
    stack = from_file(file)
    assert [each["name"] for each in found] == [job.name for job in stack.jobs]
    assert all(each.keys() == KEYS for each in found)
    assert all(each["here"] == (stack.cluster.kind.value != "existing") for each in found)


@pytest.mark.parametrize(
    ("job", "ranks"),
    [
        ({}, 2),
        ({"replicas": {"worker": 7}}, 8),
        ({"replicas": {"worker": None}}, 1),
        ({"nprocPerNode": 4, "resources": {"cpu": 8}}, 8),
    ],
)
def test_every_process_is_a_rank(job: dict[str, Any], ranks: int) -> None:
    assert told(job)["ranks"] == ranks


def test_the_processes_of_a_pod_share_its_cpus() -> None:
    assert told({"nprocPerNode": 4, "resources": {"cpu": 8}})["cpus"] == 2


@pytest.mark.parametrize(
    ("job", "backend"),
    [
        ({}, "gloo"),
        ({"resources": {"gpu": 1}}, "nccl"),
        ({"resources": {"gpu": 1}, "training": {"backend": "gloo"}}, "gloo"),
        ({"training": {"backend": "mpi"}}, "mpi"),
    ],
)
def test_gpus_exchange_by_nccl_unless_the_file_says_otherwise(job: dict[str, Any], backend: str) -> None:
    assert told(job)["backend"] == backend


@pytest.mark.parametrize(
    "command", [[], ["python3", "/opt/pytorch-mnist/mnist.py"], ["python3", "-m", "trainer"]]
)
def test_options_are_those_of_the_trainer(command: list[str]) -> None:
    found = told(
        {"command": command, "args": ["--recipe", "fast"], "training": {"epochs": 3, "batchSize": 8}},
        image={"preset": "convnet"},
    )
    from trainer import options

    config = options.parse(found["options"], {})
    assert (config.recipe, config.epochs, config.batch_size) == ("fast", 3, 8)
    assert found["options"][:2] == ["--preset", "convnet"]


def test_nobody_knows_what_an_image_of_the_user_s_own_does() -> None:
    assert told({}, image={"reference": "x/y:z", "unpinned": True})["options"] is None


def test_a_wrong_stack_file_is_refused_in_its_own_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Pulumi.bad.yaml").write_text("config:\n  trainstack:job: {name: UPPER}\n")
    assert planned_jobs.main(["bad"], tmp_path) == 1
    assert "trainstack:job" in capsys.readouterr().err
