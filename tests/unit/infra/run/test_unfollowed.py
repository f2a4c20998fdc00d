"""What an update or a destruction keeps of jobs that nobody has followed, before they go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra import agreed, paths, program
from infra.clusters import addresses
from infra.config import Stack
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import JOBSET, PYTORCHJOB, JobKind
from infra.objects.labels import RUN
from infra.objects.stack_state import StackState, from_outputs
from infra.run import unfollowed
from tests.unit.infra.objects.played_api import Request, listed, play
from tests.unit.infra.run import test_record as played
from tests.unit.infra.run.test_record import ended, line, log_of, names, running, told
from tests.unit.infra.samples import stack
from toolchain.operating import program_calls
from toolchain.tools import venv

kind = played.kind
Kept = Callable[..., list[str]]
AWAY = ConnectionRefusedError("refused")


class Server:
    """A cluster with one job of a kind, `answers` first: the last part of a path -> what is answered in place of it.

    Attributes:
        asked: what it was asked for.
    """

    def __init__(self, kind: JobKind, *conditions: str, **answers: Any) -> None:
        self.kind, self.job, self.answers = kind, played.job(kind, *conditions), answers
        state = ended(1) if conditions else running()
        self.pods = [played.pod(kind, each, state=state) for each in names(kind)]
        for pod in self.pods:
            maker = "u" if kind is PYTORCHJOB else "s"
            pod["metadata"]["ownerReferences"] = [{"uid": maker}]
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> object:
        self.asked.append(request)
        if (answer := self.answers.get(request.name)) is not None:
            return answer
        if request.name == "log":
            return line(3, f"the end of {request.path.split('/')[-2]}")
        if request.name == "pods":
            return listed(*self.pods)
        if f"/{JOBSET.plural}/" in request.path:
            return {"metadata": {"uid": "s", "ownerReferences": [{"uid": "u"}]}}
        return self.job


def of_state(kind: JobKind, uid: str = "u") -> dict[str, str]:
    return {"kind": kind.kind, "namespace": "kubeflow", "name": "j", "uid": uid, "run": "j-1"}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(paths, "models", lambda _: tmp_path)
    monkeypatch.setattr(addresses, "of_stack", lambda _: ApiAddress(None))
    return tmp_path / "runs" / "j-1"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, run: Path) -> Kept:
    """What is shown while the job is kept that the state holds under `uid`."""

    def of(server: Server, uid: str = "u", known: Stack | None = None) -> list[str]:
        shown: list[str] = []
        play(monkeypatch, server)
        unfollowed.keep(known or stack(), [of_state(server.kind, uid)], shown.append)
        return shown

    return of


@pytest.mark.parametrize("conditions", [(), ("Failed",), ("Succeeded",)], ids=["runs", "failed", "succeeded"])
def test_the_log_of_each_replica_is_kept_and_asked_for_once(
    kept: Kept, run: Path, kind: JobKind, conditions: tuple[str, ...]
) -> None:
    assert kept(Server(kind, *conditions)) == []
    for each in names(kind):
        assert f"the end of {each}" in log_of(run, kind, each)
    assert told(run)["outcome"] == (conditions[0] if conditions else None)
    again = Server(kind, *conditions)
    kept(again)
    assert bool(again.asked) is not bool(conditions), "a record with its end costs nothing"


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"j": 403}, 1),
        ({"j": AWAY}, 1),
        ({"pods": 403}, 1),
        ({"log": 403}, 1),
        ({"log": 404}, 0),
        ({"j": 404}, 0),
    ],
    ids=["forbidden", "away", "forbidden pods", "forbidden logs", "logs gone", "job gone"],
)
def test_what_cannot_be_had_is_one_sentence_and_never_a_failure(
    kept: Kept, kind: JobKind, answers: dict[str, Any], said: int
) -> None:
    assert len(kept(Server(kind, "Failed", **answers))) == said


def test_others_jobs_and_pods_are_none_of_ours(kept: Kept, run: Path, kind: JobKind) -> None:
    assert kept(Server(kind, "Failed"), uid="of the state") == []
    assert not run.exists(), "a job of this name that the state does not hold"
    foreign = Server(kind, "Failed")
    for pod in foreign.pods:
        pod["metadata"]["ownerReferences"] = [{"uid": "another"}]
    kept(foreign)
    assert kind is not PYTORCHJOB or not [*run.glob("*.log")]


def test_trials_under_way_are_left_to_their_search(kept: Kept) -> None:
    server = Server(PYTORCHJOB)
    kept(server, known=replace(stack(), trials=frozenset({"j"})))
    assert server.asked == []


def test_a_trial_that_has_ended_has_its_folder(kept: Kept, run: Path) -> None:
    server = Server(PYTORCHJOB, "Failed")
    place = {"name": "TRAINER_MODEL_DIR", "value": "/opt/mnist/models/sweep"}
    server.job = played.job(PYTORCHJOB, "Failed", env=[place])
    kept(server)
    assert (run.parents[1] / "sweep" / "runs" / "j-1" / agreed.RECORD).exists()
    again = Server(PYTORCHJOB, "Failed")
    kept(again)
    assert again.asked == []


@pytest.mark.parametrize(
    ("is_preview", "is_there", "asked"), [(False, True, 1), (True, True, 0), (False, False, 0)]
)
def test_an_update_does_so_and_no_preview(
    monkeypatch: pytest.MonkeyPatch, is_preview: bool, is_there: bool, asked: int
) -> None:
    found: list[Any] = []
    monkeypatch.setattr("pulumi.runtime.is_dry_run", lambda: is_preview)
    monkeypatch.setattr(unfollowed, "keep", lambda *words: found.append(words[1]))
    held = StackState(jobs=(of_state(PYTORCHJOB),))
    program.keep_unfollowed(stack(), held, is_there=is_there)
    assert found == [held.jobs] * asked


def test_the_state_tells_its_jobs(kind: JobKind) -> None:
    metadata = {"namespace": "kubeflow", "name": "j", "uid": "u", "labels": {RUN: "j-1"}}
    outputs = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    found = from_outputs({"urn": {"type": f"kubernetes:{kind.api_version}:{kind.kind}", "outputs": outputs}})
    assert found.jobs == (of_state(kind),)


def test_make_down_asks_for_it(monkeypatch: pytest.MonkeyPatch, run: Path) -> None:
    play(monkeypatch, Server(PYTORCHJOB, "Failed"))
    monkeypatch.setattr(venv, "ensure", lambda: None)
    program_calls.keep_unfollowed({}, "dev", [of_state(PYTORCHJOB)])
    assert told(run)["outcome"] == "Failed"
