"""Which jobs have finished and left, which `make up` deletes, and what of their runs stays."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra import agreed, inspection
from infra.clusters import addresses
from infra.config import Stack
from infra.config.operator import OperatorApi
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import OF_API, PYTORCHJOB, TRAINJOB, JobKind
from infra.objects.stack_state import StackState, from_outputs
from infra.run import finished, provider
from infra.run.job_api import JobApi, JobGoneError, api_of
from tests.unit.infra.objects.played_api import Request, listed, look, play
from tests.unit.infra.samples import stack
from toolchain.operating import state

DAY_S = 86400
APIS = pytest.mark.parametrize("api", list(OperatorApi))
KINDS = pytest.mark.parametrize("kind", [PYTORCHJOB, TRAINJOB], ids=lambda kind: kind.kind)
RESULT = {"jobStatus": "Succeeded", "accuracy": 0.97, "loss": 0.1}


def known(api: OperatorApi, seconds: int | None = DAY_S) -> Stack:
    policy = {} if seconds is None else {agreed.TTL: seconds}
    return stack(operator={"api": api.value}, job={"name": "j", "runPolicy": policy})


def run(kind: JobKind, **changes: Any) -> dict[str, Any]:
    """The run as Pulumi's state has it."""
    usual = {"namespace": "kubeflow", "job": "j", "uid": "u", "run": "j-1", agreed.TTL: DAY_S, **RESULT}
    return {**usual, **({"kind": kind.kind} if kind is TRAINJOB else {}), **changes}


def held(kind: JobKind, **changes: Any) -> StackState:
    return from_outputs({"urn": {"type": agreed.RUN, "outputs": run(kind, **changes)}})


def ended(ago_s: float, *names: str) -> dict[str, Any]:
    at = (datetime.now(UTC) - timedelta(seconds=ago_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [{"type": each, "status": "True", "lastTransitionTime": at} for each in names]
    return {"metadata": {"name": "j", "uid": "u"}, "spec": {}, "status": {"conditions": conditions}}


@APIS
@pytest.mark.parametrize(
    ("changes", "seconds", "answer", "has_left"),
    [
        ({}, DAY_S, 404, True),
        ({}, DAY_S, ended(0, "Succeeded"), False),
        ({"jobStatus": "Suspended"}, DAY_S, 404, False),
        ({agreed.TTL: None}, DAY_S, 404, False),
        ({}, None, 404, False),
        ({"namespace": "another"}, DAY_S, 404, False),
        ({"job": "another"}, DAY_S, 404, False),
    ],
    ids=["gone", "there", "not ended", "stayed", "is to stay now", "elsewhere", "another"],
)
def test_a_job_has_left_that_was_to_and_had_succeeded(
    monkeypatch: pytest.MonkeyPatch,
    api: OperatorApi,
    changes: dict[str, Any],
    seconds: int | None,
    answer: object,
    has_left: bool,
) -> None:
    play(monkeypatch, lambda _: answer)
    kind = OF_API[api]
    found = finished.left(known(api, seconds), look(kubeconfig="/dev/null"), held(kind, **changes))
    assert found == ({f"{kind.kind}/kubeflow/j": run(kind)} if has_left else {})


def test_of_a_cluster_that_is_gone_no_job_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its successor gets every job."""
    play(monkeypatch, lambda _: 404)
    away = look(kubeconfig="/nowhere/at/all")
    assert finished.left(known(OperatorApi.V1), away, held(PYTORCHJOB)) == {}


@KINDS
def test_the_toolchain_reads_the_same_in_the_state(kind: JobKind) -> None:
    title = f"{kind.kind}/kubeflow/j"
    resource = {"type": agreed.RUN, "outputs": run(kind)}
    assert state.finished({"resources": [resource]}) == dict(held(kind).finished) == {title: run(kind)}
    assert state.runs({"resources": [resource]}) == ["j-1"]
    for mark in ({"delete": True}, {"pendingReplacement": True}):
        assert state.finished({"resources": [{**resource, **mark}]}) == {}, "another one takes its place"


@pytest.mark.parametrize(
    ("kind", "job", "seconds", "is_deleted"),
    [
        (TRAINJOB, ended(DAY_S + 1, "Complete"), DAY_S, True),
        (TRAINJOB, ended(1, "Complete"), 0, True),
        (TRAINJOB, ended(DAY_S - 3600, "Complete"), DAY_S, False),
        (TRAINJOB, ended(DAY_S + 1, "Suspended", "Complete"), DAY_S, True),
        (TRAINJOB, ended(DAY_S + 1, "Complete"), None, False),
        (TRAINJOB, ended(DAY_S + 1, "Failed"), DAY_S, False),
        (TRAINJOB, ended(DAY_S + 1), DAY_S, False),
        (TRAINJOB, {**ended(DAY_S + 1, "Complete"), "metadata": {"uid": "of another"}}, DAY_S, False),
        (TRAINJOB, 404, DAY_S, False),
        (PYTORCHJOB, ended(DAY_S + 1, "Succeeded"), DAY_S, False),
    ],
    ids=["due", "at once", "early", "resumed", "is to stay now", "failed", "runs", "another", "gone", "v1"],
)
def test_a_trainjob_is_deleted_when_its_time_has_come(
    monkeypatch: pytest.MonkeyPatch, kind: JobKind, job: object, seconds: int | None, is_deleted: bool
) -> None:
    asked, said = removed(monkeypatch, kind, job, seconds)
    place = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/kubeflow/trainjobs/j"
    options = {"propagationPolicy": "Background", "preconditions": {"uid": "u"}}
    deleted = [(each.path, each.body) for each in asked if each.method == "DELETE"]
    assert deleted == ([(place, options)] if is_deleted else [])
    assert said == (
        [f"j: the job finished more than {seconds} s ago, so it was deleted"] if is_deleted else []
    )


@pytest.mark.parametrize("answer", [403, 500, ConnectionRefusedError("refused")], ids=str)
def test_what_cannot_be_deleted_is_said_and_stays(monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    """Pulumi meets it, too, and says what to do."""
    _, (line,) = removed(monkeypatch, TRAINJOB, answer, DAY_S)
    assert line.startswith("j: the job finished, but cannot be deleted: ")


def removed(
    monkeypatch: pytest.MonkeyPatch, kind: JobKind, answer: object, seconds: int | None
) -> tuple[list[Request], list[str]]:
    """What the server was asked, and what was said."""
    said: list[str] = []
    monkeypatch.setattr(addresses, "of_stack", lambda _: ApiAddress(None))
    asked = play(monkeypatch, lambda _: answer)
    api = next(api for api, each in OF_API.items() if each is kind)
    finished.remove(known(api, seconds), [run(kind)], said.append)
    return asked, said


@KINDS
@pytest.mark.parametrize(
    ("changes", "stays"),
    [({}, True), ({agreed.TTL: None}, False), ({"jobStatus": "Suspended"}, False)],
    ids=["left", "lost", "not ended"],
)
def test_a_refresh_keeps_the_run_of_a_job_that_has_left(
    monkeypatch: pytest.MonkeyPatch, kind: JobKind, changes: dict[str, Any], stays: bool
) -> None:
    play(monkeypatch, lambda _: 404)
    props = run(kind, kubeconfigPath=None, context=None, **changes)
    read = provider.RunProvider().read("j-1", props)
    assert (read.id, read.outs) == (("j-1", props) if stays else ("", {}))


def test_a_run_whose_job_has_left_is_made_again_without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another run had taken its place, and did not end well."""
    play(monkeypatch, lambda _: pytest.fail("nobody can be asked"))
    props = {key: value for key, value in run(PYTORCHJOB).items() if key not in RESULT}
    made = provider.RunProvider().create({**props, "ended": RESULT})
    assert made.id == "j-1"
    assert made.outs is not None
    assert {key: made.outs[key] for key in RESULT} == RESULT


@pytest.mark.parametrize("seconds", [None, DAY_S])
@pytest.mark.parametrize("status", ["Succeeded", "Suspended"])
def test_a_last_look_misses_no_job_that_may_have_left(seconds: int | None, status: str) -> None:
    found = inspection.may_have_left({"jobs": {"j": {"jobStatus": status}}}, known(OperatorApi.V1, seconds))
    assert found == (["j"] if seconds and status == "Succeeded" else [])


@KINDS
@pytest.mark.parametrize(
    ("last", "is_told"),
    [
        (ended(0, "Succeeded"), True),
        (ended(0, "Failed"), True),
        (ended(0, "Running"), False),
        ({**ended(0, "Succeeded"), "metadata": {"name": "j", "uid": "of another"}}, False),
    ],
    ids=["succeeded", "failed", "ran", "another"],
)
def test_whoever_waits_learns_the_end_of_a_job_that_leaves_at_once(
    monkeypatch: pytest.MonkeyPatch, kind: JobKind, last: dict[str, Any], is_told: bool
) -> None:
    first = {**ended(0), "metadata": {"name": "j", "uid": "u", "resourceVersion": "1"}}
    gone = {**last, "metadata": {**last["metadata"], "resourceVersion": "2"}}
    told = [gone] if last["metadata"]["uid"] == "u" else [first, gone]
    watches = ["".join(json.dumps({"type": "DELETED", "object": each}) + "\n" for each in told)]

    def answered(request: Request) -> object:
        if "watch" in request.query:
            return watches.pop() if watches else ""
        return listed(first) | {"metadata": {"resourceVersion": "1"}} if request.name == kind.plural else 404

    play(monkeypatch, answered)
    api: JobApi = api_of(kind)(ApiAddress(None), "kubeflow", "j", "u", lambda _: None, kind)
    with api.following(), nullcontext() if is_told else pytest.raises(JobGoneError):
        assert next(each for each in api.observations() if each["metadata"] != first["metadata"]) == gone
