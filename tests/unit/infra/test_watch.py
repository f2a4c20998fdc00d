"""`make watch`: the jobs of a stack that somebody else has applied."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from infra import paths, watch
from infra.clusters import addresses
from infra.config.load import from_file
from infra.config.operator import OperatorApi
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import TRAINJOB, JobKind
from infra.objects.labels import RUN
from infra.objects.patience import UnreachableError
from infra.run import queueing, timeline
from infra.run.job_api import JobApi, JobGoneError
from infra.run.trainjob_api import TrainJobApi
from tests.unit.infra.run.test_run import FakeApi, job

STACK = from_file(Path(__file__).parents[3] / "stacks" / "Pulumi.dev.yaml")
LIVE = {"metadata": {"uid": "u", "name": "pytorch-simple", "labels": {RUN: "pytorch-simple-1"}}}
AT = "2026-01-01T00:00:01Z"


def ended(how: str) -> dict[str, Any]:
    found = job(how)
    found["status"]["conditions"][0]["lastTransitionTime"] = AT
    return found


class Gone(FakeApi):
    """A server that raises, or a job that goes."""

    def __init__(self, error: Exception) -> None:
        super().__init__([])
        self.error = error

    def observations(self) -> Any:
        raise self.error


def watched(monkeypatch: pytest.MonkeyPatch, api: FakeApi, live: dict[str, Any] | None = LIVE) -> int:
    monkeypatch.setattr(JobApi, "of_name", lambda *_: (api, live) if live else None)
    monkeypatch.setattr(addresses, "of_stack", lambda _: None)
    return watch.main("dev")


@pytest.mark.parametrize(("how", "status"), [("Succeeded", watch.ENDED), ("Failed", watch.FAILED)])
def test_the_status_tells_how_it_ended_and_the_timeline_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, status: int
) -> None:
    monkeypatch.setattr(paths, "models", lambda _: tmp_path)
    folder = tmp_path / "runs" / "pytorch-simple-1"
    folder.mkdir(parents=True)
    api = FakeApi([job("Running"), ended(how)], log=["accuracy=0.9", "loss=0.1"])
    assert watched(monkeypatch, api) == status
    assert [what for _, _, what in json.loads((folder / timeline.FILE).read_text())] == [how]


def test_a_job_in_a_queue_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "models", lambda _: tmp_path)
    monkeypatch.setattr(queueing, "is_there", lambda *_: True)
    queued = tuple(each.model_copy(update={"queue": "team-a"}) for each in STACK.jobs)
    monkeypatch.setattr(watch, "from_file", lambda _: replace(STACK, jobs=queued))
    api = FakeApi([job("Suspended"), job("Running"), job("Succeeded")])
    assert watched(monkeypatch, api) == watch.ENDED
    assert "queued in team-a" in api.shown[0]


def test_the_result_is_told_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paths, "models", lambda _: tmp_path)
    assert (
        watched(monkeypatch, FakeApi([ended("Succeeded")], log=["accuracy=0.9", "loss=0.1"])) == watch.ENDED
    )
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
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    assert watched(monkeypatch, Gone(error)) == watch.UNKNOWN
    assert f"pytorch-simple: {said}" in capsys.readouterr().out


def test_a_job_that_is_not_there_cannot_be_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert watched(monkeypatch, FakeApi([]), None) == watch.UNKNOWN
    assert "there is no such PyTorchJob in namespace kubeflow" in capsys.readouterr().out


def test_the_job_is_of_the_kind_that_the_stack_asks_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = replace(STACK, operator=STACK.operator.model_copy(update={"api": OperatorApi.V2}))
    asked: list[JobKind] = []
    monkeypatch.setattr(TrainJobApi, "of_name", lambda *words: asked.append(words[-1]))
    assert watch.watch_job(wanted, wanted.jobs[0], ApiAddress(None)) == watch.UNKNOWN
    assert asked == [TRAINJOB]
    assert "there is no such TrainJob in namespace kubeflow" in capsys.readouterr().out
