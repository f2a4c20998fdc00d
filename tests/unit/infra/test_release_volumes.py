"""Which volumes forget the claim that they are bound to; tests/matrix does it on a real API server."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest

from infra import release_volumes, volumes
from infra.objects.api import ApiAddress
from infra.objects.cluster_api import path
from infra.objects.job_kinds import PYTORCHJOB
from infra.objects.kinds import CLAIM, POD, VOLUME
from infra.objects.labels import OF_JOB
from infra.objects.look import UnknownError
from infra.release_volumes import HeldError, Releasing
from tests.unit.infra.objects.played_api import Answer, Request, listed, play
from tests.unit.infra.samples import stack

OLD, NEW = "1-old", "2-new"
STACK = stack(cluster={"kind": "existing"}, image={"repository": "registry.example/trainer"})
"""It has one volume."""
(OWN,) = volumes.own_volumes(STACK)
JOB = STACK.jobs[0].name


class Server:
    """A volume, bound to a claim by its uid, and the claim that is there now, by its uid as well.

    Parameters:
        ending: whether that claim is on its way out, held by pods of these jobs.
    """

    def __init__(
        self,
        phase: str,
        bound: tuple[str, str, str | None] | None,
        claim: str | None,
        ending: tuple[str, ...] = (),
    ) -> None:
        reference = dict(zip(("namespace", "name", "uid"), bound, strict=True)) if bound else None
        spec: dict[str, Any] = {"persistentVolumeReclaimPolicy": "Retain"}
        self.volume: dict[str, Any] | None = {
            "metadata": {"name": OWN.name},
            "spec": {**spec, "claimRef": reference} if reference else spec,
            "status": {"phase": phase},
        }
        self.claim, self.ending = claim, ending
        self.patches: list[list[dict[str, Any]]] = []
        self.deleted: list[Request] = []

    def __call__(self, request: Request) -> object:
        place = {path(CLAIM, OWN.namespace, OWN.claim): "claim", path(VOLUME, name=OWN.name): "volume"}
        if request.method == "DELETE":
            self.deleted.append(request)
            self.claim = None
            return {}
        if request.method == "PATCH":
            self.patches.append(request.body)
            return {}
        if request.path == path(POD, OWN.namespace):
            return listed(*map(self.pod, self.ending))
        if place[request.path] == "volume":
            return self.volume or 404
        times = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if self.ending else {}
        return {"metadata": {"uid": self.claim, **times}} if self.claim else 404

    @staticmethod
    def pod(job: str) -> dict[str, Any]:
        """One of a job's, finished or not, that mounts the claim and another volume."""
        mounted = [{"emptyDir": {}}, {"persistentVolumeClaim": {"claimName": OWN.claim}}]
        return {"metadata": {"name": f"{job}-0", "labels": {OF_JOB: job}}, "spec": {"volumes": mounted}}


def release(server: Answer, show: Callable[[str], None], own: Collection[str] = ()) -> None:
    with pytest.MonkeyPatch.context() as changed:
        play(changed, server)
        Releasing(STACK, ApiAddress(None), show, own).run()


@pytest.mark.parametrize(
    ("phase", "ours", "uid", "claim", "forgets"),
    [
        ("Released", True, OLD, None, True),
        ("Released", True, OLD, NEW, True),
        ("Bound", True, OLD, None, True),
        ("Bound", True, OLD, NEW, True),
        ("Failed", True, OLD, None, True),
        ("Released", False, OLD, None, True),
        ("Bound", True, NEW, NEW, False),
        ("Bound", False, OLD, None, False),
        ("Bound", False, OLD, NEW, False),
        ("Available", True, None, None, False),
        ("Pending", True, None, NEW, False),
    ],
)
def test_a_volume_forgets_a_claim_of_before(
    phase: str, ours: bool, uid: str | None, claim: str | None, forgets: bool
) -> None:
    """Also before the controller has seen that the claim has gone, and when a claim of its name waits already."""
    server = Server(phase, (OWN.namespace, OWN.claim if ours else "theirs", uid), claim)
    shown: list[str] = []
    release(server, shown.append)
    assert len(server.patches) == len(shown) == int(forgets)
    if forgets:
        assert server.patches[0][0] == {"op": "test", "path": "/spec/claimRef/uid", "value": uid}


def test_a_volume_without_a_claim_is_left_alone() -> None:
    server = Server("Available", None, None)
    release(server, print)
    assert server.patches == []


TRIAL = "mnist-sweep-7"
HELD = [f"PyTorchJob/{OWN.namespace}/{TRIAL}", "PyTorchJob/other/elsewhere", f"Pod/{OWN.namespace}/theirs"]


@pytest.mark.parametrize(("own", "job"), [([], JOB), (HELD, TRIAL)], ids=["in the file", "in the state"])
def test_finished_jobs_that_hold_a_claim_on_its_way_out_are_deleted_with_their_pods(
    own: list[str], job: str
) -> None:
    """By the state: trials of a search, and jobs that have been taken out of the file since."""
    ending = (job, job, "theirs", "elsewhere")
    server = Server("Bound", (OWN.namespace, OWN.claim, OLD), OLD, ending)
    shown: list[str] = []
    release(server, shown.append, own)
    (asked,) = server.deleted
    assert asked.path == path(PYTORCHJOB, OWN.namespace, job)
    assert asked.query == {"propagationPolicy": "Foreground"}
    assert len(server.patches) == 1
    assert job in shown[0]


class EndingVolume(Server):
    """A volume that somebody has deleted; it goes once its claim is gone, unless `held` by another finalizer."""

    def __init__(self, policy: str, held: bool = False) -> None:
        super().__init__("Bound", (OWN.namespace, OWN.claim, OLD), OLD)
        assert self.volume
        self.held = held
        self.volume["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["theirs"]}
        self.volume["spec"]["persistentVolumeReclaimPolicy"] = policy

    def __call__(self, request: Request) -> object:
        answer = super().__call__(request)
        if request.method == "DELETE" and not self.held:
            self.volume = None
        return answer


@pytest.mark.parametrize(("policy", "patches"), [("Retain", 0), ("Delete", 1)])
def test_a_volume_on_its_way_out_gets_rid_of_its_claim_and_keeps_its_files(policy: str, patches: int) -> None:
    server = EndingVolume(policy)
    shown: list[str] = []
    release(server, shown.append)
    (asked,) = server.deleted
    assert asked.path == path(CLAIM, OWN.namespace, OWN.claim)
    assert len(server.patches) == patches
    for (patch,) in server.patches:
        assert (patch["path"], patch["value"]) == ("/spec/persistentVolumeReclaimPolicy", "Retain")
    assert [line for line in shown if OWN.claim in line and "the files stay" in line] == shown != []


def test_a_volume_that_others_hold_is_waited_for_and_then_named(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 10_000, 10))
    monkeypatch.setattr(
        "infra.release_volumes.time", SimpleNamespace(monotonic=now.__next__, sleep=lambda _: 0)
    )
    with pytest.raises(HeldError, match="held by its finalizers: theirs"):
        release(EndingVolume("Retain", held=True), print)


@pytest.mark.parametrize("place", [path(CLAIM, OWN.namespace, OWN.claim), path(VOLUME, name=OWN.name)])
@pytest.mark.parametrize("answer", [403, "404 page not found"], ids=["no right", "a proxy's words"])
def test_what_could_not_be_looked_at_is_not_touched(
    answer: object, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that nobody could look at was taken for gone, and its volume forgot it."""
    monkeypatch.setattr(release_volumes, "PATIENCE_S", 0.0)
    server = Server("Bound", (OWN.namespace, OWN.claim, OLD), OLD)
    with pytest.raises(UnknownError, match="fix: "):
        release(lambda asked: answer if asked.path == place else server(asked), print)
    assert (server.patches, server.deleted) == ([], [])
