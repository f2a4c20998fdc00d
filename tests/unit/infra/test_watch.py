"""`make watch`: the jobs of a stack that somebody else has applied."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from infra import agreed, paths, watch
from infra.clusters import addresses
from infra.config.load import from_file
from infra.config.operator import OperatorApi
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import TRAINJOB, JobKind
from infra.objects.labels import RUN
from infra.objects.retry import UnreachableError
from infra.run import waiting
from infra.run.job_api import JobApi, JobGoneError, TrainJobApi
from infra.run.waiting import Waiting
from tests.unit.infra.objects.played_api import listed, play
from tests.unit.infra.run.test_run import FakeApi, job

STACK = from_file(Path(__file__).parents[3] / "stacks" / "Pulumi.dev.yaml")
LIVE = {"metadata": {"uid": "u", "name": "pytorch-simple", "labels": {RUN: "pytorch-simple-1"}}}
Watched = Callable[..., int]
AT = "2026-01-01T00:00:01Z"


def ended(how: str) -> dict[str, Any]:
    found = job(how)
    found["status"]["conditions"][0]["lastTransitionTime"] = AT
    return found


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Watched:
    """Watches the stack with this job, whose models are in `tmp_path`; returns the status."""
    monkeypatch.setattr(paths, "models", lambda _: tmp_path)

    def main(api: FakeApi, live: dict[str, Any] | None = LIVE) -> int:
        monkeypatch.setattr(api, "find", lambda: live)
        monkeypatch.setattr(watch, "api_of", lambda _: lambda *_: api)
        monkeypatch.setattr(addresses, "of_stack", lambda _: None)
        return watch.main("dev")

    return main


@pytest.mark.parametrize(("how", "status"), [("Succeeded", watch.ENDED), ("Failed", watch.FAILED)])
def test_the_status_tells_how_it_ended_and_the_timeline_is_kept(
    tmp_path: Path, watched: Watched, how: str, status: int
) -> None:
    folder = tmp_path / "runs" / "pytorch-simple-1"
    folder.mkdir(parents=True)
    api = FakeApi([job("Running"), ended(how)], log=["accuracy=0.9", "loss=0.1"])
    assert watched(api) == status
    assert [what for _, _, what in json.loads((folder / agreed.TIMELINE).read_text())] == [how]


def test_a_job_in_a_queue_is_waited_for(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "has_queue", lambda *_: True)
    queued = tuple(each.model_copy(update={"queue": "team-a"}) for each in STACK.jobs)
    monkeypatch.setattr(watch, "from_file", lambda _: replace(STACK, jobs=queued))
    api = FakeApi([job("Suspended"), job("Running"), job("Succeeded")])
    assert watched(api) == watch.ENDED
    assert "queued in team-a" in api.shown[0]


def test_the_result_is_told_at_the_end(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    assert watched(FakeApi([ended("Succeeded")], log=["accuracy=0.9", "loss=0.1"])) == watch.ENDED
    assert capsys.readouterr().out.splitlines()[-1] == "pytorch-simple: accuracy=0.9 loss=0.1"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (JobGoneError("it was deleted"), "it was deleted"),
        (UnreachableError("did not answer"), "did not answer"),
        (ApiException(403, "Forbidden"), "403 Forbidden"),
    ],
)
def test_what_cannot_be_told_is_no_failure_of_the_job(
    watched: Watched, capsys: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    assert watched(FakeApi([error])) == watch.UNKNOWN
    assert f"pytorch-simple: {said}" in capsys.readouterr().out


def test_a_missing_job_cannot_be_told(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    assert watched(FakeApi([]), None) == watch.UNKNOWN
    assert "there is no such PyTorchJob in namespace kubeflow" in capsys.readouterr().out


def test_the_job_is_of_the_kind_that_the_stack_asks_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = replace(STACK, operator=STACK.operator.model_copy(update={"api": OperatorApi.V2}))
    asked: list[JobKind] = []
    monkeypatch.setattr(TrainJobApi, "find", lambda self: asked.append(self.kind))
    assert watch.watch_job(wanted, wanted.jobs[0], ApiAddress(None)) == watch.UNKNOWN
    assert asked == [TRAINJOB]
    assert "there is no such TrainJob in namespace kubeflow" in capsys.readouterr().out


@pytest.mark.parametrize(("api", "rank0"), [("v1", "master-0"), ("v2", "node-0-0-")])
def test_the_newest_job_of_an_engine_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: str, rank0: str
) -> None:
    """Its name is that of its run; others' jobs and runs look alike."""
    wanted = replace(STACK, operator=STACK.operator.model_copy(update={"api": OperatorApi(api)}))
    monkeypatch.setattr(paths, "models", lambda _: tmp_path)
    runs = ("pytorch-simple-1", "pytorch-simple-2", "pytorch-simple-large-3")
    there = [made(run, run, f"2026-01-0{day}T00:00:00Z") for day, run in enumerate(runs, 1)]
    there.append(made("of-a-notebook", "pytorch-simple-4", "2026-01-04T00:00:00Z"))
    by_name = {each["metadata"]["name"]: each for each in there}
    play(monkeypatch, lambda asked: listed(*there) if "jobs" in asked.name else by_name.get(asked.name, 404))
    followed: list[tuple[str, str]] = []

    class Noted(Waiting):
        def __init__(self, api: JobApi, **given: Any) -> None:
            super().__init__(api, **given)
            followed.append((api.name, api.leader({"spec": {"pytorchReplicaSpecs": {"Master": {}}}})))

        def until_end(self) -> str:
            raise JobGoneError("enough")

    monkeypatch.setattr(watch, "Waiting", Noted)
    assert watch.watch_job(wanted, wanted.jobs[0], ApiAddress(None)) == watch.UNKNOWN
    assert followed == [("pytorch-simple-2", f"pytorch-simple-2-{rank0}")]


def made(name: str, run: str, at: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "labels": {RUN: run}, "creationTimestamp": at}}
