"""Jobs that had failed before this `make up` are tried again: which of them, and that they are gone first."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from infra.objects.job_kinds import OF_API, PYTORCHJOB
from toolchain.operating import live_objects, state, update
from toolchain.steps import SetupError

OLD, NEW = "uid-before", "uid-of-this-update"
KINDS = [each.resource for each in OF_API.values()]


class Server:
    """kubectl's answers: a deleted job is there for two more looks."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.refuses = False
        self.looks = 2
        self.successor = ""

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.calls.append(arguments)
        if self.refuses:
            return subprocess.CompletedProcess(arguments, 1, "", "Forbidden")
        self.looks -= arguments[0] == "get"
        text = OLD if self.looks > 0 else self.successor
        return subprocess.CompletedProcess(arguments, 0, text if arguments[0] == "get" else "deleted", "")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(live_objects, "kubectl", lambda variables, access, *words: found.kubectl(*words))
    monkeypatch.setattr(state, "access", lambda deployment: state.Access("config"))
    monkeypatch.setattr(update, "PAUSE_S", 0)
    return found


def deployment(*uids: str, type_: str = state.JOBS[0]) -> dict[str, Any]:
    jobs = [{"type": type_, "outputs": {"metadata": {"uid": uid}}} for uid in uids]
    return {"resources": [{"type": "pulumi:pulumi:Stack"}, {"type": type_}, *jobs]}


def tell(variable: dict[str, str], *uids: str, kind: str = PYTORCHJOB.resource) -> None:
    with Path(variable[agreed.FAILED_JOBS]).open("a") as file:
        for uid in uids:
            job = {"namespace": "kubeflow", "name": f"job-{uid}", "uid": uid, "kind": kind}
            file.write(json.dumps(job) + "\n")


@pytest.mark.parametrize(("type_", "kind"), list(zip(state.JOBS, KINDS, strict=True)))
def test_one_that_had_failed_before_is_deleted_and_gone(
    server: Server, capsys: pytest.CaptureFixture[str], type_: str, kind: str
) -> None:
    with update.trying_again({}, deployment(OLD, type_=type_)) as (variable, remove):
        tell(variable, OLD, kind=kind)
        assert remove()
        assert not remove(), "it is told once"
    verbs = [call[0] for call in server.calls]
    assert verbs == ["delete", "get", "get"]
    assert {call[1] for call in server.calls} == {kind}
    assert {"job-uid-before", "--cascade=foreground"} <= set(server.calls[0])
    said = capsys.readouterr().err
    assert "job kubeflow/job-uid-before had failed before this `make up`: it is tried again" in said


def test_a_successor_of_its_name_is_another_job(server: Server) -> None:
    server.successor = NEW
    with update.trying_again({}, deployment(OLD)) as (variable, remove):
        tell(variable, OLD)
        assert remove()


@pytest.mark.parametrize("uids", [(), (NEW,)])
def test_one_that_this_update_has_made_is_no_old_failure(server: Server, uids: tuple[str, ...]) -> None:
    with update.trying_again({}, deployment(OLD)) as (variable, remove):
        tell(variable, *uids)
        assert not remove()
    assert not server.calls


def test_a_job_that_does_not_go_is_an_error(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.looks = 1000
    monkeypatch.setattr(update, "GONE_S", 0)
    with update.trying_again({}, deployment(OLD)) as (variable, remove):
        tell(variable, OLD)
        with pytest.raises(SetupError, match="was deleted, and is not gone"):
            remove()


def test_a_refusal_is_said(server: Server) -> None:
    server.refuses = True
    with update.trying_again({}, deployment(OLD)) as (variable, remove):
        tell(variable, OLD)
        with pytest.raises(SetupError, match="cannot be deleted: Forbidden"):
            remove()
