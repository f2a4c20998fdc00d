"""A job in a queue of Kueue's, under the real Pulumi on a real API server; Kueue and the operator are played by hand.

Each of their steps is taken when the wait has told of the one before, so nothing depends on speed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from infra.config.job import QUEUE_LABEL
from infra.job.queue import SUSPEND
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import KUEUE, PYTORCHJOB, TRAINJOB, JobKind
from infra.run import waiting
from infra.run.job_api import JobApi
from standins.tests.apiserver import ApiServer
from tests.e2e.waiting import wait_until
from tests.matrix.played_operator import BY_HAND, PlayedOperator
from tests.matrix.project import AppliedProject, applied
from tests.matrix.test_trainer_v2 import Server, controllers, is_served, server, v2  # noqa: F401 - fixtures

NAMESPACE, JOB = "queued", "mnist"
QUEUES = ("team-a", "team-b")
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"localqueues.{KUEUE}"},
    "spec": {
        "group": KUEUE,
        "scope": "Namespaced",
        "names": {"kind": "LocalQueue", "plural": "localqueues", "singular": "localqueue"},
        "versions": [
            {
                "name": "v1beta2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
# What the operators write: a condition's type and status, by the word that the wait has for it.
V2_CONDITIONS = {
    "Suspended": ("Suspended", "True"),
    "Running": ("Suspended", "False"),
    "Succeeded": ("Complete", "True"),
}


class Hand:
    """Plays Kueue and the operator for one job; each writes under its own name."""

    def __init__(self, project: AppliedProject, kind: JobKind) -> None:
        self.jobs, self.kind = client.CustomObjectsApi(project.connection), kind
        self.place = (kind.group, kind.version, NAMESPACE, kind.plural, JOB)

    def job(self) -> dict[str, Any] | None:
        try:
            found: Any = self.jobs.get_namespaced_custom_object(*self.place)
        except ApiException as error:
            if error.status != 404:
                raise
            return None
        return dict(found)

    @property
    def uid(self) -> str:
        found = self.job()
        return str(found["metadata"]["uid"]) if found else ""

    def is_held(self) -> bool | None:
        """What the job's `suspend` is; None where it has none."""
        value: Any = self.job()
        for key in SUSPEND[self.kind.kind].split("."):
            value = value.get(key, {})
        return None if value == {} else bool(value)

    def hold(self, held: bool) -> None:
        """As Kueue preempts and admits."""
        patch: Any = held
        for key in reversed(SUSPEND[self.kind.kind].split(".")):
            patch = {key: patch}
        self.jobs.patch_namespaced_custom_object(*self.place, patch, field_manager="kueue")

    def say(self, word: str) -> None:
        """As the operator finds the job."""
        name, holds = V2_CONDITIONS[word] if self.kind is TRAINJOB else (word, "True")
        at = "2026-01-01T00:00:00Z"
        condition = {
            "type": name,
            "status": holds,
            "reason": word,
            "message": "played",
            "lastTransitionTime": at,
        }
        active = {"name": "node", "active": 1, "ready": 1, "succeeded": 0, "failed": 0, "suspended": 0}
        running = {"jobsStatus": [active]} if self.kind is TRAINJOB and word == "Running" else {}
        status = {"status": {"conditions": [condition], **running}}
        self.jobs.patch_namespaced_custom_object_status(*self.place, status)


@pytest.fixture(scope="module")
def kueue(api_server: ApiServer) -> Iterator[None]:
    """What Kueue brings: its kind of queue, and the queues of a namespace."""
    made = Server(str(api_server.kubeconfig))
    core, extensions = client.CoreV1Api(made.found.client), client.ApiextensionsV1Api(made.found.client)
    made.apply(CRD)
    core.create_namespace({"metadata": {"name": NAMESPACE}})  # type: ignore[arg-type]
    try:
        wait_until("queues are served", lambda: is_served(extensions, CRD["metadata"]["name"]))
        made.found.resources.invalidate_cache()
        for name in QUEUES:
            metadata = {"name": name, "namespace": NAMESPACE}
            made.apply({"apiVersion": f"{KUEUE}/v1beta2", "kind": "LocalQueue", "metadata": metadata})
        yield
    finally:
        extensions.delete_custom_resource_definition(CRD["metadata"]["name"])
        core.delete_namespace(NAMESPACE)


@pytest.fixture
def project(
    api_server: ApiServer, operator: PlayedOperator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AppliedProject]:
    with applied(tmp_path_factory.mktemp("queue"), api_server.kubeconfig, "queued") as made:
        yield made


Told = Callable[[str], int]


@contextmanager
def applying(project: AppliedProject, hand: Hand, **changes: Any) -> Iterator[Told]:
    """`make up` with `changes`, under way; how often it has told of the job what a pattern finds."""
    project.configured(**changes)
    log = project.folder / "events.jsonl"
    log.unlink(missing_ok=True)
    with ThreadPoolExecutor(1) as pool:
        update = pool.submit(project.apply, "--event-log", str(log))

        def told(pattern: str) -> int:
            assert not update.done(), update.exception() or update.result()
            return len(re.findall(rf"{JOB}: {pattern}", log.read_text())) if log.exists() else 0

        try:
            yield told
        except BaseException:
            if hand.job():
                hand.say("Succeeded")  # else the update would wait for ever
            raise
        update.result()


def await_another(hand: Hand, told: Told, before: str) -> None:
    def is_made() -> bool:
        told("")  # fails where the update has ended
        return hand.uid not in ("", before)

    wait_until("a job is made", is_made)


def play(hand: Hand, told: Told, queue: str, *, preempted: bool = False) -> None:
    """A new job of `queue`, from its creation to its end."""
    found = hand.job()
    assert found
    assert hand.is_held() is True, "made suspended"
    assert found["metadata"]["labels"][QUEUE_LABEL] == queue
    for times in range(1, 3 if preempted else 2):
        hand.say("Suspended")
        line = rf"Suspended, queued in {queue} until Kueue admits it(?!;)"
        wait_until("the wait tells of the queue", lambda: told(line) == times)  # noqa: B023
        hand.hold(False)
        hand.say("Running")
        wait_until("the wait has seen it run", lambda: told("Running") == times)  # noqa: B023
        if times == 1 and preempted:
            hand.hold(True)
    hand.say("Succeeded")


@pytest.mark.slow(reason="seven updates; the change matrix takes one job through a queue and back")
@pytest.mark.parametrize("kind", [PYTORCHJOB, TRAINJOB], ids=["v1", "v2"])
def test_kueue_alone_says_when_a_job_runs(
    project: AppliedProject,
    server: Server,  # noqa: F811 - the fixture
    kueue: None,
    kind: JobKind,
) -> None:
    hand = Hand(project, kind)
    given = {
        "cluster.namespace": NAMESPACE,
        "operator.api": "v2" if kind is TRAINJOB else "v1",
        "job.labels": {BY_HAND: "yes"},
    }
    queued = {**given, "job.queue": "team-a"}
    with applying(project, hand, **queued) as told:
        await_another(hand, told, "")
        play(hand, told, "team-a", preempted=True)
    first = hand.uid
    project.up("--expect-no-changes", **queued)
    assert (hand.uid, hand.is_held()) == (first, False), "an update leaves it to Kueue"
    assert project.drifted() == []

    for queue in QUEUES:
        before = hand.uid
        with applying(project, hand, **{**queued, "job.rerun": 1, "job.queue": queue}) as told:
            await_another(hand, told, before)
            play(hand, told, queue)

    before = hand.uid
    with applying(project, hand, **given) as told:
        await_another(hand, told, before)
        assert not hand.is_held(), "nothing holds it"
        hand.say("Succeeded")

    before = hand.uid
    with applying(project, hand, **queued) as told:
        await_another(hand, told, before)
        play(hand, told, "team-a")


def test_the_queues_of_a_namespace_are_found(api_server: ApiServer, kueue: None) -> None:
    api = JobApi(ApiAddress(str(api_server.kubeconfig)), NAMESPACE, JOB, "u", print)
    assert [waiting.has_queue(api, name) for name in (*QUEUES, "team-c")] == [True, True, False]
