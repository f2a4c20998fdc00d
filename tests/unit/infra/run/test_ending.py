"""A job that has not ended is deleted, with its pods, before Pulumi deletes it or registers another one."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from infra import agreed, program
from infra.clusters import addresses
from infra.objects.api import ApiAddress
from infra.objects.labels import OF_JOB, OF_JOBSET, RUN
from infra.objects.retry import UnreachableError
from infra.objects.stack_state import StackState
from infra.run import ending, job_api, job_status
from infra.run.ending import EndingProvider
from infra.run.job_api import TrainJobApi
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
    monkeypatch.setattr(TrainJobApi, "job", job)
    monkeypatch.setattr(TrainJobApi, "has_parts", lambda _: found.parts.pop(0))
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
    options = {"propagationPolicy": "Background", "preconditions": {"uid": "u"}}
    assert (deleted[0], deleted[1], deleted[4]) == ("DELETE", place, options)
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


@pytest.mark.parametrize("status", job_api.OTHERS)
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


def left(kind: str = "PyTorchJob", name: str = "j") -> dict[str, str]:
    """A job as the state has it."""
    return {"kind": kind, "namespace": "kubeflow", "name": name, "uid": f"u-{name}", "run": f"{name}-0"}


def pod(kind: str = "PyTorchJob", name: str = "j", phase: str = "Running", **labels: str) -> dict[str, Any]:
    of_job = {OF_JOBSET if kind == "TrainJob" else OF_JOB: name, RUN: f"{name}-0", **labels}
    metadata = {"name": f"{name}-0", "namespace": "kubeflow", "labels": of_job}
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase}}


class Cluster:
    """Jobs by name and pods; a deleted job's pods end at the second look. Refuses verbs of `refused` with a status.

    Attributes:
        asked: what was changed: the verb, and the last part of the path.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *pods: dict[str, Any]) -> None:
        self.jobs: dict[str, Any] = {}
        self.pods = [*pods]
        self.looks, self.lasting = 0, False
        self.refused: dict[str, int] = {}
        self.asked: list[tuple[str, str]] = []
        monkeypatch.setattr(ending, "PATIENCE_S", 0)
        play(monkeypatch, self)

    def __call__(self, request: Request) -> object:
        if request.method in self.refused:
            return self.refused[request.method]
        if request.name == "pods":
            assert request.query == {"labelSelector": RUN}
            self.looks += 1
            gone = [each for each in self.asked if each[0] == "DELETE"]
            self.pods = [] if gone and self.looks > 2 and not self.lasting else self.pods
            return {"items": self.pods}
        if request.method == "GET":
            return self.jobs.get(request.name, 404)
        if request.method == "DELETE":
            assert request.body == {
                "propagationPolicy": "Background",
                "preconditions": {"uid": f"u-{request.name}"},
            }
            self.jobs.pop(request.name)
        self.asked.append((request.method, request.name))
        return {}

    def has(self, *names: str, condition: str = "") -> None:
        conditions = [{"type": condition, "status": "True"}] if condition else []
        self.jobs |= {
            each: {"metadata": {"uid": f"u-{each}"}, "status": {"conditions": conditions}} for each in names
        }


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def end_all(*jobs: dict[str, str]) -> list[str]:
    said: list[str] = []
    ending.end_all(ApiAddress(""), jobs or [left()], said.append)
    return said


@pytest.mark.parametrize(("kind", "verbs"), [("PyTorchJob", ["DELETE"]), ("TrainJob", ["PATCH", "DELETE"])])
def test_one_that_leaves_the_stack_is_deleted_with_its_pods(
    cluster: Cluster, kind: str, verbs: list[str]
) -> None:
    cluster.has("j")
    cluster.pods = [pod(kind)]
    assert end_all(left(kind)) == [
        f"{kind} kubeflow/j has left the stack: it was deleted before other jobs start"
    ]
    assert cluster.asked == [(verb, "j") for verb in verbs]
    assert cluster.pods == [], "they are waited for"


def test_all_are_deleted_before_one_is_waited_for(cluster: Cluster) -> None:
    cluster.has("a", "b")
    cluster.pods = [pod(name="a"), pod(name="b")]
    end_all(left(name="a"), left(name="b"))
    assert cluster.asked == [("DELETE", "a"), ("DELETE", "b")]


def test_the_pods_of_one_that_is_deleted_already_are_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an interruption: its pods still end, or somebody created it again."""
    cluster.pods = [pod()]
    monkeypatch.setattr(ending, "GONE_S", -1)
    monkeypatch.setattr(ending, "MARGIN_S", -1)
    told = r"(?s)still run.*kubeflow/j-0\n  fix: wait .*kubectl get pods --namespace kubeflow --selector trainstack/run"
    with pytest.raises(ending.NotEndedError, match=told):
        end_all()
    assert cluster.asked == []


@pytest.mark.parametrize("condition", job_status.ENDS)
def test_one_that_has_ended_is_left_to_pulumi(cluster: Cluster, condition: str) -> None:
    cluster.has("j", condition=condition)
    cluster.pods = [pod(phase="Succeeded"), pod(phase="Failed")]
    assert end_all() == []
    assert cluster.asked == []


def test_one_that_has_failed_is_deleted_while_a_pod_of_it_runs(cluster: Cluster) -> None:
    cluster.has("j", condition="Failed")
    cluster.pods = [pod()]
    end_all()
    assert cluster.asked == [("DELETE", "j")]


@pytest.mark.parametrize(
    "others",
    [pod("TrainJob"), pod(name="k"), pod(**{RUN: "j-1"})],
    ids=["other API", "other job", "other run"],
)
def test_nobody_waits_for_pods_of_other_jobs(cluster: Cluster, others: dict[str, Any]) -> None:
    cluster.pods = [others]
    assert end_all() == []


def test_another_job_of_the_name_stays(cluster: Cluster) -> None:
    cluster.has("j")
    cluster.jobs["j"]["metadata"]["uid"] = "another"
    assert end_all() == []
    assert cluster.asked == []


@pytest.mark.parametrize("status", [403, 500, 503])
@pytest.mark.parametrize("verb", ["GET", "DELETE"])
def test_one_that_cannot_be_deleted_ends_the_update(cluster: Cluster, verb: str, status: int) -> None:
    cluster.has("j")
    cluster.refused = {verb: status}
    command = "kubectl delete pytorchjobs j --namespace kubeflow"
    told = rf"(?s)left the stack must end.*cannot be deleted.*fix: delete them \(`{command}`"
    with pytest.raises(ending.NotEndedError, match=told):
        end_all()


@pytest.mark.parametrize("status", [403, 500])
def test_a_trainjob_that_a_webhook_keeps_from_being_suspended_is_deleted(
    cluster: Cluster, status: int
) -> None:
    cluster.has("j")
    cluster.refused = {"PATCH": status}
    end_all(left("TrainJob"))
    assert cluster.asked == [("DELETE", "j")]


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
    held = StackState(jobs=(left(), left("TrainJob")))
    manifest = {"kind": "TrainJob", "metadata": {"namespace": "kubeflow", "name": "j"}}
    program.end_left(stack(), held, [Planned(manifest=manifest, phase="job")], is_there=True)
    program.end_left(stack(), held, [], is_there=False)
    assert ended == ([] if preview else ["PyTorchJob/j"])
