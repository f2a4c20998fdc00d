"""`make status ARGS=--metrics`: what it tells, read by Prometheus' own parser."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from tests.unit.toolchain.operating.test_status import condition, healthy, live
from tests.unit.toolchain.runs.conftest import Models, epoch, models
from toolchain import __main__ as command
from toolchain.operating import environment, prometheus_text, status
from toolchain.operating.prometheus_text import STATES
from toolchain.operating.status import Finding, Health, Part
from toolchain.steps import SetupError

__all__ = ["models"]
Samples = dict[str, list[tuple[dict[str, str], float]]]


def parsed(text: str) -> Samples:
    found: Samples = {}
    for family in families(text):
        assert (family.type, bool(family.documentation)) == ("gauge", True)
        found[family.name] = [(dict(each.labels), each.value) for each in family.samples]
    return found


def of_job(*conditions: str, **more: Any) -> Finding:
    metadata = {"namespace": "kubeflow", "creationTimestamp": "2026-11-22T16:00:00Z"}
    spec = {"runPolicy": {"suspend": "Suspended" in conditions}}
    job = live("PyTorchJob", "job", metadata=metadata, spec=spec, status={**condition(*conditions), **more})
    return Finding(Part.JOB, Health.HEALTHY, "", job)


@pytest.fixture(autouse=True)
def on_kind(monkeypatch: pytest.MonkeyPatch, models: Models) -> None:
    monkeypatch.setattr(environment, "cluster_access", lambda stack: SimpleNamespace(models_are_here=True))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """What a look at the stack finds."""
    found = status.inspect_objects(healthy())
    monkeypatch.setattr(status, "look_at", lambda stack: found)
    return found


def test_a_healthy_stack(seen: list[Finding], models: Models, capsys: pytest.CaptureFixture[str]) -> None:
    models.run("job-1", epoch(2, 0.97), weights="first")
    assert command.main(["status", "--metrics"]) == 0
    found = parsed(capsys.readouterr().out)
    assert {labels["part"]: value for labels, value in found["trainstack_part_up"]} == {
        "operator": 1,
        "volume": 1,
        "claim": 1,
        "job": 1,
        "owner": 1,
    }
    assert {labels["state"] for labels, value in found["trainstack_job_state"] if value} == {"succeeded"}
    labels = {"stack": "dev", "job": "job", "run": "job-1"}
    assert found["trainstack_last_run_accuracy_ratio"] == [(labels, 0.97)]
    assert found["trainstack_last_run_duration_seconds"] == [(labels, 20.0)]
    assert found["trainstack_last_run_written_timestamp_seconds"] == [(labels, 60.0)]
    ((_, looked_at),) = found["trainstack_status_timestamp_seconds"]
    assert abs(time.time() - looked_at) < 3600
    usage = shutil.disk_usage(models.folder)
    assert found["trainstack_volume_size_bytes"] == [({"stack": "dev"}, usage.total)]
    ((_, free),) = found["trainstack_volume_free_bytes"]
    assert 0 <= free <= usage.total


def test_an_event_is_no_part_of_a_stack() -> None:
    found = parsed(prometheus_text.text("dev", [Finding(Part.EVENT, Health.HEALTHY, "")]))
    assert "trainstack_part_up" not in found


@pytest.mark.parametrize("part", [each for each in Part if each is not Part.EVENT])
@pytest.mark.parametrize(
    ("healths", "up", "unknown"),
    [
        ([Health.HEALTHY], 1, 0),
        ([Health.HEALTHY, Health.NOT], 0, 0),
        ([Health.UNKNOWN], None, 1),
        ([Health.NOT, Health.UNKNOWN], 0, 0),
        ([Health.HEALTHY, Health.UNKNOWN], None, 1),
    ],
)
def test_a_part_counts_by_the_worst_that_was_found(
    part: Part, healths: list[Health], up: float | None, unknown: float
) -> None:
    found = parsed(prometheus_text.text("dev", [Finding(part, health, "") for health in healths]))
    labels = {"stack": "dev", "part": part.lower().replace(" ", "_")}
    assert found.get("trainstack_part_up", []) == ([] if up is None else [(labels, up)])
    assert found["trainstack_part_unknown"] == [(labels, unknown)]


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ((), "none"),
        (("Created",), "created"),
        (("Created", "Running"), "running"),
        (("Created", "Restarting"), "restarting"),
        (("Created", "Suspended"), "suspended"),
        (("Created", "Running", "Succeeded"), "succeeded"),
        (("Created", "Failed"), "failed"),
        (("Created", "SomethingNew"), "created"),
    ],
)
def test_a_job_is_in_one_state(conditions: tuple[str, ...], state: str) -> None:
    found = parsed(prometheus_text.text("dev", [of_job(*conditions)]))["trainstack_job_state"]
    assert [labels["state"] for labels, _ in found] == list(STATES)
    assert [labels["state"] for labels, value in found if value] == [state]


def test_a_trainjob_that_is_complete_has_succeeded() -> None:
    job = live("TrainJob", "job", metadata={"namespace": "kubeflow"}, status=condition("Complete"))
    found = parsed(prometheus_text.text("dev", [Finding(Part.JOB, Health.HEALTHY, "", job)]))
    assert [labels["state"] for labels, value in found["trainstack_job_state"] if value] == ["succeeded"]
    assert "trainstack_job_failed_replicas" not in found


def test_the_failures_of_a_job_are_counted_by_replica() -> None:
    counts = {"Master": {"succeeded": 1}, "Worker": {"failed": 2, "active": 1}}
    found = parsed(prometheus_text.text("dev", [of_job("Running", replicaStatuses=counts)]))
    told = {labels["replica"]: value for labels, value in found["trainstack_job_failed_replicas"]}
    assert told == {"master": 0, "worker": 2}
    ((labels, created),) = found["trainstack_job_created_timestamp_seconds"]
    assert (labels["job"], created) == ("job", 1795363200)


def test_the_last_run_of_each_job_of_the_stack(models: Models) -> None:
    models.run("a-b-1", epoch(1, 0.5), weights="first")
    models.run("a-b-2", epoch(1, 0.75))
    models.run("a-b-3", epoch(1, 0.9), stack="gpu", weights="third")
    models.run("c-1")
    models.run("a-b-sweep-0-1", epoch(1, 0.95), stack="dev/sweep", weights="a trial")
    found = parsed(prometheus_text.text("dev", []))
    told = [(labels["job"], labels["run"], value) for labels, value in found["trainstack_last_run_finished"]]
    assert told == [("a-b", "a-b-2", 0), ("c", "c-1", 0)]
    assert [value for _, value in found["trainstack_last_run_accuracy_ratio"]] == [0.75]
    runs = {labels["state"]: value for labels, value in found["trainstack_runs"]}
    assert runs == {"finished": 1, "unfinished": 2}


@pytest.mark.parametrize("answer", [None, SetupError("the stack file is wrong")])
def test_a_volume_that_is_not_here_has_no_size(
    monkeypatch: pytest.MonkeyPatch, models: Models, answer: Exception | None
) -> None:
    def told(stack: str) -> SimpleNamespace:
        if answer:
            raise answer
        return SimpleNamespace(models_are_here=False)

    models.run("a-1", epoch(1, 0.5))
    monkeypatch.setattr(environment, "cluster_access", told)
    assert "trainstack_volume_size_bytes" not in parsed(prometheus_text.text("dev", []))


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", "ä", "a,b}", ""])
def test_any_name_is_read_as_it_was_written(value: str) -> None:
    family = prometheus_text.Family("trainstack_test", "A test.")
    family.add(1.5, name=value)
    assert parsed("\n".join(family.lines())) == {"trainstack_test": [({"name": value}, 1.5)]}


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.1, 123456789.25, 1.7953e18])
def test_any_number_is_read_as_it_was_written(value: float) -> None:
    family = prometheus_text.Family("trainstack_test", "A test.")
    family.add(value)
    assert parsed("\n".join(family.lines())) == {"trainstack_test": [({}, value)]}


def test_a_file_is_written_whole(
    seen: list[Finding], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "trainstack.prom"
    target.write_text("old")
    assert command.main(["status", "--metrics", str(target)]) == 0
    assert "trainstack_part_up" in parsed(target.read_text())
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["trainstack.prom"]
    assert capsys.readouterr().out == ""
    assert target.stat().st_mode & 0o777 == 0o644, "the collector runs as another user"


def test_a_file_that_cannot_be_written(
    seen: list[Finding], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["status", "--metrics", str(tmp_path / "none" / "x.prom")]) == Health.UNKNOWN
    said = capsys.readouterr().err
    assert "x.prom cannot be written: No such file or directory" in said
    assert said.splitlines()[-1].startswith("  next: ")


def test_the_exit_status_is_the_health(
    seen: list[Finding], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for health in Health:
        seen[:] = [Finding(Part.OPERATOR, health, "")]
        assert command.main(["status", "--metrics"]) == health
    assert command.main(["status", "--json"]) == Health.UNKNOWN
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["stack"] == "dev"
