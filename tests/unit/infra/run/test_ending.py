"""A TrainJob that trains is suspended, and gone with its pods, before Pulumi deletes it; no other one is touched."""

from __future__ import annotations

from typing import Any

import pytest

from infra import agreed
from infra.objects.retry import UnreachableError
from infra.run import ending
from infra.run.ending import EndingProvider
from infra.run.job_api import TrainJobApi
from tests.unit.infra.objects.played_api import Request, play
from tests.unit.infra.run.test_trainjob import trainjob

PROPS = {"kubeconfigPath": "", "context": None, "namespace": "kubeflow", "job": "j", "uid": "u"}


class Server:
    """Holds one job; keeps what it was asked for, or refuses that with `status`.

    `parts` says of each look at the JobSet and its pods whether there is one.
    """

    def __init__(self) -> None:
        self.job: dict[str, Any] | Exception | None = trainjob(active=1)
        self.status = 0
        self.asked: list[tuple[Any, ...]] = []
        self.parts = [True, True, True, False]

    def __call__(self, request: Request) -> object:
        if self.status:
            return self.status
        self.asked.append((request.method, request.path, request.query, request.content, request.body))
        return {}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()

    def job(_: TrainJobApi) -> Any:
        if isinstance(found.job, Exception):
            raise found.job
        return found.job

    monkeypatch.delenv(agreed.DELETE_UNREACHABLE, raising=False)
    monkeypatch.setattr(TrainJobApi, "job", job)
    monkeypatch.setattr(TrainJobApi, "has_parts", lambda _: found.parts.pop(0))
    monkeypatch.setattr(ending, "PAUSE_S", 0)
    play(monkeypatch, found)
    return found


def delete() -> None:
    EndingProvider().delete("u", PROPS)


@pytest.mark.parametrize("job", [trainjob(), trainjob(active=1)])
def test_one_that_has_not_ended_is_suspended_by_its_uid_and_goes_with_all_parts(
    server: Server, job: dict[str, Any]
) -> None:
    """In the background: in the foreground Trainer makes again what the deletion waits for."""
    server.job = job
    delete()
    place = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/kubeflow/trainjobs/j"
    suspended = {"metadata": {"uid": "u"}, "spec": {"suspend": True}}
    (patched, deleted) = server.asked
    assert patched == ("PATCH", place, {}, "application/merge-patch+json", suspended)
    assert deleted[:3] == ("DELETE", place, {"propagationPolicy": "Background"})
    assert server.parts == [], "it is waited for"


def test_a_part_that_stays_is_waited_for_no_longer_than_that(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ending, "GONE_S", -1)
    delete()
    assert server.parts == [True, False]
    assert "its pods still exist" in capsys.readouterr().out


@pytest.mark.parametrize("job", [None, *map(trainjob, ("Complete", "Failed", "Suspended"))])
def test_one_that_makes_no_pods_any_more_is_left(server: Server, job: dict[str, Any] | None) -> None:
    server.job = job
    delete()
    assert server.asked == []


@pytest.mark.parametrize("status", ending.OTHERS)
def test_one_that_went_meanwhile_is_no_trouble(
    server: Server, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    server.status = status
    delete()
    assert capsys.readouterr().out == ""


def test_a_refusal_is_said_and_the_deletion_goes_on(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.status = 403
    delete()
    server.job = UnreachableError("no answer")
    delete()
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[2].rpartition(": ")[0] for line in said] == [
        "the job cannot be suspended before its deletion"
    ] * 2
    assert "403" in said[0]
    assert said[1].endswith("no answer")


def test_of_a_cluster_that_is_gone_nothing_is_asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(agreed.DELETE_UNREACHABLE, "true")
    server.job = AssertionError("asked")
    delete()


def test_it_goes_with_its_job() -> None:
    provider = EndingProvider()
    assert provider.create(PROPS).id == "u"
    assert provider.diff("u", PROPS, {**PROPS, "uid": "v"}).replaces == ["uid"]
    assert not provider.diff("u", PROPS, PROPS).changes
