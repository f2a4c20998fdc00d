"""A finished run in the stack file: which job gets it, what stays, and what its pods are told."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from infra import paths, stack_edits
from infra.config import ConfigError, from_file
from infra.config.job import JobConfig
from infra.config.operator import OperatorApi
from infra.job.manifest import manifest, run_of
from infra.stack_plan import job_objects as objects
from tests.unit.infra.samples import JOB, job_context

ONE = """# the comment stays
config:
  trainstack:job:
    name: mnist # and this one
    training:
      epochs: 2
"""
SEVERAL = """config:
  trainstack:jobs:
    - {name: mnist, training: {epochs: 2}}
    - name: other
      rerun: 1
      training:
        epochs: 1
"""


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stack files, and the folders of their runs."""
    monkeypatch.setattr(paths, "models", lambda stack: tmp_path / "models" / stack)
    for run in ("mnist-01234567", "mnist-89abcdef", "mnist-Not_One", "other-01234567"):
        for stack in ("one", "several"):
            (tmp_path / "models" / stack / "runs" / run).mkdir(parents=True)
    (tmp_path / "Pulumi.one.yaml").write_text(ONE)
    (tmp_path / "Pulumi.several.yaml").write_text(SEVERAL)
    return tmp_path


def refused(file: Path, run: str, match: str) -> None:
    before = file.read_text()
    with pytest.raises(ConfigError, match=match):
        stack_edits.choose_run(file, run)
    assert file.read_text() == before


def ids(file: Path) -> dict[str, str | None]:
    return {job.name: job.run_id for job in from_file(file).jobs}


def test_it_is_written_for_the_job_and_nothing_else_changes(stacks: Path) -> None:
    file = stacks / "Pulumi.one.yaml"
    assert stack_edits.choose_run(file, "mnist-01234567") == ["mnist"]
    assert ids(file) == {"mnist": "mnist-01234567"}
    added = [line for line in file.read_text().splitlines() if line not in ONE.splitlines()]
    assert [line.strip() for line in added] == ["runId: mnist-01234567"]
    assert stack_edits.choose_run(file, "mnist-01234567") == [], "it is there already"
    assert stack_edits.choose_run(file, "mnist-89abcdef") == ["mnist"]
    assert file.read_text().count("runId") == 1


@pytest.mark.parametrize("job", ["mnist", "other"])
def test_of_several_jobs_the_runs_own_gets_it(stacks: Path, job: str) -> None:
    file = stacks / "Pulumi.several.yaml"
    assert stack_edits.choose_run(file, f"{job}-01234567") == [job]
    assert {name for name, run in ids(file).items() if run} == {job}
    assert stack_edits.choose_run(file, stack_edits.NO_RUN) == [job]
    assert set(ids(file).values()) == {None}


@pytest.mark.parametrize(
    ("run", "match"),
    [
        *(
            (each, "mnist-<8 hex digits>")
            for each in ("elsewhere-01234567", "mnist", "mnist-other-01234567", "")
        ),
        ("-01234567", "mnist-<8 hex digits>"),
        ("mnist-Not_One", "runId"),
    ],
)
def test_a_run_of_no_job_is_refused(stacks: Path, run: str, match: str) -> None:
    refused(stacks / "Pulumi.one.yaml", run, match)


@pytest.mark.parametrize(("cluster", "takes"), [("{kind: existing}", True), ("{kind: kind}", False)])
def test_only_a_volume_elsewhere_may_have_a_run_that_is_not_here(
    stacks: Path, cluster: str, takes: bool
) -> None:
    file = stacks / "Pulumi.one.yaml"
    image = "trainstack:image: {reference: localhost/trainer:1, unpinned: true}"
    file.write_text(ONE.replace("config:\n", f"config:\n  trainstack:cluster: {cluster}\n  {image}\n"))
    if takes:
        assert stack_edits.choose_run(file, "mnist-76543210") == ["mnist"]
        return
    refused(file, "mnist-76543210", "there is no run mnist-76543210 on the volume")


def test_the_pods_are_told_to_take_it() -> None:
    plain = manifest(JobConfig.model_validate(JOB), job_context())
    chosen = manifest(JobConfig.model_validate({**JOB, "runId": "older-01234567"}), job_context())
    assert run_of(chosen) == "older-01234567" != run_of(plain)
    for job, told in ((plain, None), (chosen, "true")):
        for replica in job["spec"]["pytorchReplicaSpecs"].values():
            (container,) = replica["template"]["spec"]["containers"]
            variables = {each["name"]: each.get("value") for each in container["env"]}
            assert variables.get("TRAINER_TAKE_FINISHED") == told
            assert variables["TRAINER_RUN"] == run_of(job)


@pytest.mark.parametrize("api", OperatorApi)
@pytest.mark.parametrize(
    "own", [{}, {"command": ["python3", "train.py"], "args": ["--lr=1"]}], ids=["ours", "own"]
)
def test_it_is_copied_and_no_program_runs(tmp_path: Path, api: OperatorApi, own: dict[str, object]) -> None:
    """By what the pod is given, with both APIs: run here, in the place of a container."""
    given = {**JOB, **own, "runId": "older-01234567", "model": "own.pt"}
    *_, made = objects(JobConfig.model_validate(given), job_context(api=api))
    if api is OperatorApi.V1:
        found = made["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    else:
        found = made["spec"]["trainer"]
    assert not found.get("args")
    variables = {"TRAINER_MODEL_DIR": str(tmp_path), "TRAINER_RUN": "older-01234567"}
    variables |= {"PATH": os.environ["PATH"]}
    missing = subprocess.run(found["command"], env=variables, capture_output=True, text=True)
    assert (missing.returncode, "has left no own.pt on the volume" in missing.stderr) == (1, True)
    run = tmp_path / "runs" / "older-01234567"
    run.mkdir(parents=True)
    (run / "own.pt").write_text("older")
    (tmp_path / "own.pt").write_text("newer")
    done = subprocess.run(found["command"], env=variables, capture_output=True, text=True)
    assert (done.returncode, "nothing is trained" in done.stdout) == (0, True)
    assert {each.name for each in tmp_path.iterdir()} == {"runs", "own.pt"}
    assert (tmp_path / "own.pt").read_text() == "older"


@pytest.mark.parametrize(
    "training",
    [
        {"replicas": {"master": 1, "worker": 3}},
        {"replicas": {"master": None, "worker": 3}, "elasticPolicy": {"minReplicas": 2, "maxReplicas": 4}},
        {"nprocPerNode": 2},
        {"runPolicy": {"schedulingPolicy": {"minAvailable": 2, "minResources": {"cpu": 2}, "queue": "team"}}},
    ],
    ids=["workers", "elastic", "processes", "gang"],
)
def test_one_replica_takes_it_whatever_the_training_had(stacks: Path, training: dict[str, object]) -> None:
    file = stacks / "Pulumi.one.yaml"
    job = {"name": "mnist", "runId": "older-01234567", "data": [], **training}
    file.write_text(yaml.safe_dump({"config": {"trainstack:job": job}}))
    (taking,) = from_file(file).jobs
    assert taking == JobConfig.model_validate(job).with_one_process()
    spec = manifest(taking, job_context())["spec"]
    assert [(kind, each["replicas"]) for kind, each in spec["pytorchReplicaSpecs"].items()] == [("Master", 1)]
    assert (spec["nprocPerNode"], "elasticPolicy" in spec) == ("1", False)
    assert spec["runPolicy"].get("schedulingPolicy") in (None, {"queue": "team"})
