"""A protected stack is not taken back by a commit that lacks what was applied last: real Git, a played history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolchain.conftest import git
from toolchain.operating import pulumi_cli, update
from toolchain.steps import SetupError

History = Callable[..., None]


def commit(clone: Path, text: str) -> str:
    (clone / "file").write_text(text)
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", text)
    return git(clone, "rev-parse", "HEAD").strip()


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
    assert "is no part of the commit that is checked out here" in said
    assert "git pull" in said


def test_of_two_branches_neither_undoes_the_other(clone: Path, history: History) -> None:
    git(clone, "checkout", "--quiet", "-b", "one")
    one = commit(clone, "one")
    git(clone, "checkout", "--quiet", "main")
    commit(clone, "other")
    history(("update", one))
    assert "is no part of" in refusal()
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
    assert "a clone with its whole history" in refusal()


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
