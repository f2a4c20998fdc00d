"""`make up` runs Pulumi again after what the program asked for, not for ever, and of a protected stack by a plan."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from infra.objects.job_kinds import OF_API, PYTORCHJOB
from tests.unit.toolchain.conftest import commit_all, git
from toolchain.operating import environment, live_objects, pulumi_cli, pulumi_output, state, update
from toolchain.steps import SetupError

Round = tuple[int, dict[str, Any] | None]


class Pulumi:
    """Answers each round as given: exit status, and what the program writes."""

    def __init__(self, *rounds: Round) -> None:
        self.rounds = list(rounds)
        self.ran: list[tuple[str, ...]] = []
        self.dropping: list[bool] = []

    def up(self, variables: Mapping[str, str], *options: str) -> int:
        status, asked = self.rounds[len(self.ran)]
        self.ran.append(options)
        self.dropping.append(variables.get(agreed.DELETE_UNREACHABLE) == "true")
        if asked is not None:
            Path(variables[agreed.LOST_OBJECTS]).write_text(json.dumps(asked))
        return status


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(update, "_adopt_lost", lambda variables, stack, lost: found.extend(lost))
    return found


REFRESH = ("--refresh",)
LOST: dict[str, Any] = {"objects": [{"kind": "Namespace"}]}


@pytest.mark.parametrize(
    ("rounds", "ran", "dropping"),
    [
        ([(0, None)], [REFRESH], [False]),
        ([(255, LOST), (0, None)], [REFRESH] * 2, [False] * 2),
        ([(0, {"objects": []}), (255, LOST), (0, None)], [REFRESH] * 3, [False] * 3),
        ([(255, {"replaced": "trainstack-dev"}), (0, None)], [REFRESH, ()], [False, True]),
    ],
    ids=[
        "nothing is asked",
        "lost objects",
        "a lost state",
        "a cluster is replaced: that round drops its objects",
    ],
)
def test_pulumi_runs_until_the_program_asks_for_nothing_more(
    taken: list[Any], rounds: list[Round], ran: list[tuple[str, ...]], dropping: list[bool]
) -> None:
    pulumi = Pulumi(*rounds)
    update.update({}, "dev", pulumi.up, lambda: False)
    assert (pulumi.ran, pulumi.dropping) == (ran, dropping)
    assert taken == (LOST["objects"] if (255, LOST) in rounds else [])


@pytest.mark.parametrize(
    ("rounds", "runs"),
    [
        ([(1, None)], 1),
        ([(1, {"objects": []})], 1),
        ([(255, {"objects": [{}]}), (1, None)], 2),
        ([(255, {"objects": [{}]})] * update.ROUNDS, update.ROUNDS),
    ],
)
def test_a_failure_ends_it(taken: list[Any], rounds: list[Round], runs: int) -> None:
    pulumi = Pulumi(*rounds)
    with pytest.raises(SetupError, match="failed"):
        update.update({}, "dev", pulumi.up, lambda: False)
    assert len(pulumi.ran) == runs


BAD, WORSE = "urn:1", "urn:2"
NOTHING: dict[str, str] = {}


@pytest.mark.parametrize(
    ("rounds", "failed", "options", "said"),
    [
        ([1, 0], [{BAD: "bad"}, NOTHING], [(BAD,)], r"for job bad;"),
        (
            [1, 1, 0],
            [{BAD: "bad"}, {WORSE: "worse"}, NOTHING],
            [(BAD,), (BAD, WORSE)],
            "for jobs bad, worse;",
        ),
        ([1, 1], [{BAD: "bad"}, {BAD: "bad"}], [(BAD,)], r"failed \(1\)"),
        ([1, 1], [{BAD: "bad"}, NOTHING], [(BAD,)], r"failed \(1\)"),
        ([1], [NOTHING], [], r"failed \(1\)"),
        ([1] * 9 + [0], [{str(n): "a"} for n in range(9)], None, "for job a;"),
    ],
)
def test_a_job_that_fails_is_left_out_of_the_next_round(
    monkeypatch: pytest.MonkeyPatch,
    rounds: list[int],
    failed: list[dict[str, str]],
    options: list[tuple[str, ...]] | None,
    said: str,
) -> None:
    """A refresh would not know the name of what Pulumi has not made."""
    pulumi = Pulumi(*((status, None) for status in rounds))
    monkeypatch.setattr(pulumi_output, "failed_jobs", lambda: failed[len(pulumi.ran) - 1])
    with pytest.raises(SetupError, match=said):
        update.update({}, "dev", pulumi.up, lambda: False)
    assert len(pulumi.ran) == len(rounds)
    assert pulumi.ran[0] == ("--refresh",)
    for ran, urns in zip(pulumi.ran[1:], options or [], strict=options is not None):
        assert ran == ("--exclude-dependents", *(word for urn in urns for word in ("--exclude", urn)))


@pytest.mark.parametrize("failed", [{}, {BAD: "bad"}])
def test_what_fails_is_tried_again_and_not_left_out_where_it_can_be_mended(
    monkeypatch: pytest.MonkeyPatch, failed: dict[str, str]
) -> None:
    pulumi = Pulumi((1, None), (0, None))
    monkeypatch.setattr(pulumi_output, "failed_jobs", lambda: failed)
    update.update({}, "dev", pulumi.up, lambda: True)
    assert pulumi.ran == [("--refresh",)] * 2


@pytest.mark.parametrize("given", ["0123", "0123456789ABCDEF", "x" * 16])
def test_what_is_no_owners_id_is_refused_before_anything_is_set_up(given: str) -> None:
    with pytest.raises(SetupError, match="make status"):
        update.pass_up_flags(given, "")


def test_consents_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (agreed.ADOPT, agreed.REPLACE_CLUSTER):
        monkeypatch.setenv(name, "before")
    update.pass_up_flags("", "")
    assert environment.for_child({})[agreed.ADOPT] == "before"
    update.pass_up_flags("0123456789abcdef", "yes")
    passed = environment.for_child({})
    assert (passed[agreed.ADOPT], passed[agreed.REPLACE_CLUSTER]) == ("0123456789abcdef", "yes")


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
    monkeypatch.setattr(state, "access", lambda holding: state.Access("config"))
    return found


def holding(*uids: str, type_: str = state.JOBS[0]) -> dict[str, Any]:
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
    with update.retrying_failed_jobs({}, holding(OLD, type_=type_)) as (variable, remove):
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
    with update.retrying_failed_jobs({}, holding(OLD)) as (variable, remove):
        tell(variable, OLD)
        assert remove()


@pytest.mark.parametrize("uids", [(), (NEW,)])
def test_one_that_this_update_has_made_is_no_old_failure(server: Server, uids: tuple[str, ...]) -> None:
    with update.retrying_failed_jobs({}, holding(OLD)) as (variable, remove):
        tell(variable, *uids)
        assert not remove()
    assert not server.calls


def test_a_job_that_does_not_go_is_an_error(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.looks = 1000
    monkeypatch.setattr(update, "GONE_S", 0)
    with update.retrying_failed_jobs({}, holding(OLD)) as (variable, remove):
        tell(variable, OLD)
        with pytest.raises(SetupError, match="was deleted, but still exists"):
            remove()


def test_a_refusal_is_said(server: Server) -> None:
    server.refuses = True
    with update.retrying_failed_jobs({}, holding(OLD)) as (variable, remove):
        tell(variable, OLD)
        with pytest.raises(SetupError, match="cannot be deleted: Forbidden"):
            remove()


History = Callable[..., None]


def commit(clone: Path, text: str) -> str:
    (clone / "file").write_text(text)
    return commit_all(clone, text)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commit(tmp_path, "start")
    monkeypatch.setattr(update, "ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> History:
    """Sets what was done to the stack, the latest first, each as (kind, commit)."""

    def done(*entries: tuple[str, str | None]) -> None:
        found: list[dict[str, Any]] = [
            {
                "kind": kind,
                "startTime": "2026-11-22T16:00:00.000Z",
                "environment": {"git.head": head} if head else {},
            }
            for kind, head in entries
        ]
        monkeypatch.setattr(pulumi_cli, "history", lambda variables, stack: found)

    return done


def refusal() -> str:
    with pytest.raises(SetupError) as refused:
        update.ensure_contained({}, "gpu")
    return str(refused.value)


def test_the_same_commit_and_a_later_one_are_applied(clone: Path, history: History) -> None:
    history(("update", git(clone, "rev-parse", "HEAD").strip()))
    update.ensure_contained({}, "gpu")
    commit(clone, "later")
    update.ensure_contained({}, "gpu")


def test_the_first_merge_is_not_applied_after_the_second(clone: Path, history: History) -> None:
    second = commit(clone, "second merge")
    git(clone, "checkout", "--quiet", "HEAD~1")
    history(("update", second))
    said = refusal()
    assert f"was updated on 2026-11-22T16:00:00.000Z from commit {second[:12]}" in said
    assert "is not part of the commit that is checked out here" in said
    assert "git pull" in said


def test_of_two_branches_neither_undoes_the_other(clone: Path, history: History) -> None:
    git(clone, "checkout", "--quiet", "-b", "one")
    one = commit(clone, "one")
    git(clone, "checkout", "--quiet", "main")
    commit(clone, "other")
    history(("update", one))
    assert "is not part of" in refusal()
    git(clone, "merge", "--quiet", "--strategy", "ours", "--message", "both", "one")
    update.ensure_contained({}, "gpu")


def test_a_revert_goes_back(clone: Path, history: History) -> None:
    applied = commit(clone, "unwanted")
    git(clone, "revert", "--no-edit", "HEAD")
    history(("update", applied))
    update.ensure_contained({}, "gpu")


def test_a_commit_that_this_clone_does_not_have_is_not_undone(clone: Path, history: History) -> None:
    history(("update", "f" * 40))
    assert "ffffffffffff, which is not known in this clone" in refusal()


def test_a_clone_without_history_is_told_so(
    clone: Path, history: History, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first = git(clone, "rev-parse", "HEAD").strip()
    commit(clone, "later")
    shallow = tmp_path_factory.mktemp("shallow") / "clone"
    git(clone, "clone", "--quiet", "--depth", "1", clone.as_uri(), str(shallow))
    monkeypatch.setattr(update, "ROOT", shallow)
    history(("update", first))
    assert "clone the whole history" in refusal()


@pytest.mark.parametrize(
    "done",
    [
        [],
        [("refresh", "f" * 40)],
        [("update", None)],
        [("destroy", "f" * 40), ("update", "e" * 40)],
    ],
)
def test_where_nothing_stands_or_no_commit_is_known_nothing_is_refused(
    clone: Path, history: History, done: list[tuple[str, str | None]]
) -> None:
    history(*done)
    update.ensure_contained({}, "gpu")


def test_the_latest_update_counts(clone: Path, history: History) -> None:
    first = git(clone, "rev-parse", "HEAD").strip()
    second = commit(clone, "second")
    git(clone, "checkout", "--quiet", first)
    history(("refresh", first), ("update", second), ("update", first))
    assert second[:12] in refusal()
