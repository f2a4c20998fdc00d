"""How a TrainJob's run is judged: from its conditions, its JobSet's Jobs and their pods."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytest

from infra.objects.api import ApiAddress
from infra.objects.cluster_api import path
from infra.objects.informer import PAUSE_S
from infra.objects.job_kinds import JOBSET, PYTORCHJOB, TRAINJOB, JobKind
from infra.run import job_api, job_status
from infra.run.job_api import JOBSET_UID, TrainJobApi, api_of
from infra.run.log_follower import LogFollower
from infra.run.waiting import RunFailedError, Waiting
from tests.unit.infra.objects.played_api import Request, listed, play
from tests.unit.infra.run.test_run import FakeApi

JOBS_SYNC_S = 1
"""Seconds that a Job of Kubernetes 1.34 gathers changes of its pods, before JobSet learns of one that has failed.

Source: SyncJobBatchPeriod in pkg/controller/job/job_controller.go.
"""


def trainjob(
    *conditions: str, active: int | None = None, message: str = "", held: str = "True"
) -> dict[str, Any]:
    """As pkg/controller/trainjob_controller.go of the trainer leaves one."""
    status: dict[str, Any] = {}
    if conditions:
        status["conditions"] = [{"type": each, "status": held, "message": message} for each in conditions]
    if active is not None:
        status["jobsStatus"] = [{"name": "node", "active": active, "ready": 0, "succeeded": 0, "failed": 0}]
    return {
        "metadata": {"uid": "u", "resourceVersion": "1"},
        "spec": {"trainer": {"numNodes": 2}, "suspend": "Suspended" in conditions},
        "status": status,
    }


def pod(name: str, created: str = "1", phase: str = "Running", code: int | None = None) -> dict[str, Any]:
    end = {"state": {"terminated": {"exitCode": code, "finishedAt": "2"}}} if code is not None else {}
    status = {"phase": phase, "containerStatuses": [{"name": "node", **end}]}
    return {"metadata": {"name": name, "uid": name, "creationTimestamp": created}, "status": status}


class Server:
    """Answers as the API server does: one JobSet, its Jobs, pods by label, events by uid."""

    def __init__(self, owner: str | None = "u") -> None:
        self.owner = owner

    def __call__(self, request: Request) -> object:
        assert "/namespaces/kubeflow/" in request.path
        if request.path == path(JOBSET, "kubeflow", "j"):
            owners = [{"uid": self.owner}]
            return {"metadata": {"uid": "s", "ownerReferences": owners}} if self.owner else 404
        if "watch" in request.query:
            return ""
        if request.name == "events":
            assert request.query == {"fieldSelector": "type=Warning"}
            return listed(*map(warning, ("u", "s", "b", "of another")))
        if request.name == "jobs":
            assert request.query == {"labelSelector": f"{JOBSET_UID}=s"}
            return listed({"metadata": {"uid": "b"}})
        label, _, jobset = request.query.pop("labelSelector").partition("=")
        assert (label, request.query) == (JOBSET_UID, {})
        pods = {"s": of_jobset("s", "j-node-0-0-abcde"), "another": of_jobset("another", "k-node-0-0-abcde")}
        return listed(*(each for uid, each in pods.items() if jobset in ("", uid)))


def of_jobset(uid: str, name: str) -> dict[str, Any]:
    found = pod(name)
    found["metadata"]["labels"] = {JOBSET_UID: uid}
    return found


def warning(uid: str) -> dict[str, Any]:
    return {"metadata": {"uid": f"w{uid}"}, "involvedObject": {"uid": uid}, "reason": f"about {uid}"}


@contextmanager
def asking(monkeypatch: pytest.MonkeyPatch, server: Server) -> Iterator[TrainJobApi]:
    play(monkeypatch, server)
    api = TrainJobApi(ApiAddress(None), "kubeflow", "j", "u", print, TRAINJOB)
    with api.following():
        yield api


@pytest.mark.parametrize(
    ("found", "now"),
    [
        (trainjob(), "Pending"),
        (trainjob(active=0), "Pending"),
        (trainjob(active=1), "Running"),
        (trainjob("Complete", active=0), "Succeeded"),
        (trainjob("Failed"), "Failed"),
        (trainjob("Suspended"), "Suspended"),
        (trainjob("Suspended", active=1, held="False"), "Running"),
    ],
)
def test_the_condition_that_holds(found: dict[str, Any], now: str) -> None:
    assert job_status.condition(found)[0] == now


def test_its_nodes_are_the_pods_that_are_waited_for() -> None:
    assert job_status.wanted_pods(trainjob()) == 2


def test_pods_are_those_of_its_own_jobset(monkeypatch: pytest.MonkeyPatch) -> None:
    with asking(monkeypatch, Server()) as api:
        (found,) = api.pods()
    assert found["metadata"]["name"] == "j-node-0-0-abcde"


@pytest.mark.parametrize("owner", [None, "an earlier TrainJob of this name"])
def test_without_a_jobset_of_its_own_there_are_no_pods(
    monkeypatch: pytest.MonkeyPatch, owner: str | None
) -> None:
    with asking(monkeypatch, Server(owner)) as api:
        assert api.pods() == []
        assert [each["reason"] for each in api.warnings()] == ["about u"]


def test_warnings_are_about_all_that_makes_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    with asking(monkeypatch, Server()) as api:
        found = api.warnings()
    assert [each["reason"] for each in found] == ["about u", "about s", "about b"]


def test_another_jobset_is_looked_for_when_the_pods_of_one_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    with asking(monkeypatch, server) as api:
        assert api.pods()
        assert api.jobset == "s"
        api.jobset = "an earlier one"
        assert api.pods()
        assert api.jobset == "s"


def test_it_has_parts_as_long_as_pods_of_its_jobset_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with asking(monkeypatch, Server()) as api:
        assert api.has_parts()
        monkeypatch.setattr(api, "_jobset", lambda: "")
        assert api.has_parts(), "a pod"
        api.jobset = "an earlier one"
        assert not api.has_parts()


class FailingServer(Server):
    """A pod fails once the test says so; only who may watch is told at once."""

    def __init__(self, may_watch: bool) -> None:
        super().__init__()
        self.may_watch = may_watch
        self.failed, self.closed = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> object:
        if request.name == "trainjobs" and "watch" not in request.query:
            return listed({**trainjob(active=1), "metadata": {"name": "j", "uid": "u"}})
        if request.name != "pods":
            return super().__call__(request)
        found = of_jobset("s", "j-node-0-0-abcde")
        found["metadata"]["resourceVersion"] = "2"
        found["status"]["phase"] = "Failed" if self.failed.is_set() else "Running"
        if "watch" not in request.query:
            return listed(found)
        if not self.may_watch:
            return 403
        if self.failed.is_set():
            self.closed.wait()
            return ""
        self.failed.wait()
        found["status"]["phase"] = "Failed"
        return json.dumps({"type": "MODIFIED", "object": found})


MOST_WAKES = 9


@pytest.mark.parametrize("may_watch", [True, False])
def test_a_pod_that_fails_is_looked_at_before_its_jobset_deletes_it(
    monkeypatch: pytest.MonkeyPatch, may_watch: bool
) -> None:
    """Not when the job is looked at again, but as soon as a watch or the next list has it."""
    monkeypatch.setattr(job_api, "LOOK_S", 3600)
    server = FailingServer(may_watch)
    with asking(monkeypatch, server) as api:
        jobs = api.observations()
        next(jobs)
        assert [each["status"]["phase"] for each in api.pods()] == ["Running"]
        server.failed.set()
        # What was listed before may still be waking the wait.
        phases = ([each["status"]["phase"] for each in api.pods()] for _ in islice(jobs, MOST_WAKES))
        assert ["Failed"] in phases
        server.closed.set()


def test_lists_are_made_before_a_jobset_deletes_a_failed_pod() -> None:
    assert PAUSE_S <= JOBS_SYNC_S


class Told(FakeApi, TrainJobApi):
    """A TrainJob whose observations, pods and log are given."""

    kind = TRAINJOB

    def log_stream(self, pod: str, container: str, since: str = "") -> Any:
        yield from (f"{line}\n".encode() for line in self.last_lines(pod, container))


def test_a_complete_job_is_a_succeeded_run_with_the_log_of_its_last_rank_0() -> None:
    """JobSet makes all pods anew: the one that failed has ended, and is not the one to be read."""
    pods = [pod("j-node-0-0-first", "1", "Failed", 1), pod("j-node-0-0-again", "2", "Succeeded", 0)]
    api = Told([trainjob("Complete")], pods, {"j-node-0-0-again": ["accuracy=0.9"]})
    wait = Waiting(api)
    assert wait.until_end() == job_status.SUCCEEDED
    assert wait.follower.finish() == ["accuracy=0.9"]


def test_a_failed_job_shows_the_container_that_failed_and_how_to_go_on() -> None:
    failed = [pod("j-node-0-1-abcde", "1", "Failed", 3)]
    api = Told([trainjob("Failed", message="jobset failed")], failed, {"j-node-0-1-abcde": ["boom"]})
    told = r"(?s)TrainJob kubeflow/j failed: jobset failed.*pod j-node-0-1-abcde.*boom.*delete trainjob j"
    with pytest.raises(RunFailedError, match=told):
        Waiting(api).until_end()


@pytest.mark.parametrize(
    ("phase", "said"),
    [("Failed", ["pod j-node-0-1-abcde: Failed: container node: exit code 137, OOMKilled"]), ("Running", [])],
)
def test_a_replica_that_is_replaced_says_how_it_has_ended(phase: str, said: list[str]) -> None:
    """Its pod is soon gone, and no other one counts its restarts. A pod that runs starts its container again itself."""
    found = pod("j-node-0-1-abcde", phase=phase, code=137)
    found["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = "OOMKilled"
    assert [str(each) for each in job_status.troubles([found])] == said


def test_a_quota_is_said_that_its_job_meets_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the three that make its pods has events of its own; Trainer's are of the newer kind."""
    events = {
        "u": {"reason": "TrainJobResourcesCreationFailed", "eventTime": "2026-01-01T00:00:01.000000Z"},
        "s": {"reason": "RestartJobSet", "lastTimestamp": "2026-01-01T00:00:02Z"},
        "b": {"reason": "FailedCreate", "message": "exceeded quota", "lastTimestamp": "2026-01-01T00:00:03Z"},
    }

    class Refusing(Server):
        def __call__(self, request: Request) -> object:
            if request.name == "pods" and "watch" not in request.query:
                return listed()
            if request.name == "events" and "watch" not in request.query:
                return listed(*(warning(uid) | event for uid, event in events.items()))
            return super().__call__(request)

    with asking(monkeypatch, Refusing()) as api:
        found = Waiting(api)._troubles(trainjob(active=0), api.pods())
    assert [str(each) for each in found] == ["job j: FailedCreate: exceeded quota"]


def test_a_suspended_job_that_is_to_be_is_the_end() -> None:
    assert Waiting(Told([trainjob("Suspended")]), suspended=True).until_end() == "Suspended"


def test_rank_0_is_followed_into_its_next_pod() -> None:
    first, again = pod("j-node-0-0-first", "1"), pod("j-node-0-0-again", "2")
    api = Told([], [], {"j-node-0-0-first": ["one"], "j-node-0-0-again": ["two"]})
    follower = LogFollower(api)
    for pods in ([first, pod("j-node-0-1-other", "3")], [first, again]):
        follower.find_pod(trainjob(), pods)
        follower.ensure_started(pods)
        assert follower.thread is not None
        follower.thread.join()
    assert api.shown == ["j: one", "j: two"]


@pytest.mark.parametrize(
    ("kind", "job", "named"),
    [
        (TRAINJOB, trainjob(), "j-node-0-0-"),
        (PYTORCHJOB, {"spec": {"pytorchReplicaSpecs": {"Master": {}, "Worker": {}}}}, "j-master-0"),
        (PYTORCHJOB, {"spec": {"pytorchReplicaSpecs": {"Worker": {}}}}, "j-worker-0"),
    ],
)
def test_rank_0_has_its_kinds_name(kind: JobKind, job: dict[str, Any], named: str) -> None:
    assert api_of(kind)(ApiAddress(None), "kubeflow", "j", "u", print, kind).leader(job) == named
