"""A job that has not ended is deleted, with its pods, before Pulumi deletes it or registers another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from infra import agreed, program
from infra.clusters import addresses
from infra.objects.api import ApiAddress
from infra.objects.retry import UnreachableError
from infra.objects.stack_state import StackState
from infra.run import ending
from infra.run.ending import EndingProvider
from infra.run.job_api import JobApi, TrainJobApi
from infra.stack_plan import Planned
from tests.unit.infra.objects.played_api import Request, play
from tests.unit.infra.run.test_trainjob import trainjob
from tests.unit.infra.samples import stack

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
    for api in (JobApi, TrainJobApi):
        monkeypatch.setattr(api, "job", job)
        monkeypatch.setattr(api, "has_parts", lambda _: found.parts.pop(0))
    monkeypatch.setattr(ending, "PAUSE_S", 0)
    play(monkeypatch, found)
    return found


def delete() -> None:
    EndingProvider().delete("u", PROPS)


@pytest.mark.parametrize("job", [trainjob(), trainjob(active=1), trainjob("Suspended")])
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


@pytest.mark.parametrize("job", [None, *map(trainjob, ("Complete", "Failed"))])
def test_one_that_has_ended_is_left(server: Server, job: dict[str, Any] | None) -> None:
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


def left(kind: str = "PyTorchJob") -> list[dict[str, str]]:
    """A job as the state has it."""
    return [{"kind": kind, "namespace": "kubeflow", "name": "j", "uid": "u", "run": "j-0"}]


def end_all(kind: str = "PyTorchJob") -> list[str]:
    said: list[str] = []
    ending.end_all(ApiAddress(""), left(kind), said.append)
    return said


@pytest.mark.parametrize(
    ("kind", "place", "spec"),
    [
        ("PyTorchJob", "/apis/kubeflow.org/v1/namespaces/kubeflow/pytorchjobs/j", {}),
        (
            "TrainJob",
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/kubeflow/trainjobs/j",
            {"suspend": True},
        ),
    ],
)
def test_one_that_leaves_the_stack_is_deleted_with_its_pods(
    server: Server, kind: str, place: str, spec: dict[str, Any]
) -> None:
    server.job = trainjob(active=1) if kind == "TrainJob" else {"status": {"conditions": []}}
    assert end_all(kind) == [f"{kind} kubeflow/j has left the stack: it was deleted before other jobs start"]
    (patched, deleted) = server.asked
    assert patched[1] == deleted[1] == place
    assert patched[4] == {"metadata": {"uid": "u"}, "spec": spec}
    assert deleted[0] == "DELETE"
    assert server.parts == [], "it is waited for"


def refused(server: Server, _: pytest.MonkeyPatch) -> None:
    server.status = 403


def unreachable(server: Server, _: pytest.MonkeyPatch) -> None:
    server.job = UnreachableError("no answer")


def with_pods(_: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "GONE_S", -1)


@pytest.mark.parametrize(
    ("trouble", "said"), [(refused, "403"), (unreachable, "no answer"), (with_pods, "pods still exist")]
)
def test_one_that_may_still_write_to_its_run_ends_the_update(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Callable[[Server, pytest.MonkeyPatch], None],
    said: str,
) -> None:
    trouble(server, monkeypatch)
    told = rf"(?s)PyTorchJob kubeflow/j has left.*{said}.*fix: `kubectl delete pytorchjobs j --namespace kubeflow`"
    with pytest.raises(ending.NotEndedError, match=told):
        end_all()


def test_one_that_has_gone_or_ended_is_no_news(server: Server) -> None:
    server.job = None
    assert end_all() == []
    assert server.asked == []


@pytest.mark.parametrize("preview", [True, False])
def test_only_an_update_ends_jobs_and_only_those_that_the_plan_lacks(
    monkeypatch: pytest.MonkeyPatch, preview: bool
) -> None:
    """A job of the other API leaves, although it has the same name."""
    ended: list[str] = []
    address = ApiAddress(__file__)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: preview)
    monkeypatch.setattr(addresses, "of_stack", lambda _: address)
    monkeypatch.setattr(
        ending,
        "end_all",
        lambda _, jobs, show: ended.extend(f"{each['kind']}/{each['name']}" for each in jobs),
    )
    held = StackState(jobs=(*left(), *left("TrainJob")))
    manifest = {"kind": "TrainJob", "metadata": {"namespace": "kubeflow", "name": "j"}}
    program.end_left(stack(), held, [Planned(manifest=manifest, phase="job")], is_there=True)
    program.end_left(stack(), held, [], is_there=False)
    assert ended == ([] if preview else ["PyTorchJob/j"])
