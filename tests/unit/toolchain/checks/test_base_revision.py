"""What a review compares with: the stacks of the revision where this commit left the main branch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolchain.conftest import git
from toolchain.checks import review
from toolchain.steps import SetupError

FILE = "stacks/Pulumi.dev.yaml"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit on main."""
    root = tmp_path / "clone"
    (root / "stacks").mkdir(parents=True)
    monkeypatch.setattr(review, "ROOT", root)
    git(root, "init", "--quiet", "--initial-branch", "main")
    commit(root, "first")
    return root


def commit(root: Path, text: str) -> str:
    (root / FILE).parent.mkdir(exist_ok=True)
    (root / FILE).write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", text)
    return git(root, "rev-parse", "HEAD").strip()[:12]


def unpacked(tmp_path: Path, asked: str = "") -> tuple[str, str | None]:
    """How the revision is called, and its stack file."""
    target = tmp_path / "base"
    target.mkdir()
    said = review.unpack_base(asked, target)
    return said, (target / FILE).read_text() if (target / FILE).exists() else None


def test_on_the_main_branch_it_is_the_present_commit(clone: Path, tmp_path: Path) -> None:
    second = commit(clone, "second")
    (clone / FILE).write_text("not committed")
    assert unpacked(tmp_path) == (f"`{second}`", "second")


@pytest.mark.parametrize("name", ["main", "master"])
def test_on_a_branch_it_is_where_that_left_the_main_branch(clone: Path, tmp_path: Path, name: str) -> None:
    left = git(clone, "rev-parse", "HEAD").strip()[:12]
    git(clone, "branch", "--move", name)
    git(clone, "switch", "--quiet", "--create", "topic")
    head = commit(clone, "of the topic")
    git(clone, "switch", "--quiet", name)
    commit(clone, "later, of others")
    git(clone, "switch", "--quiet", "topic")
    assert unpacked(tmp_path) == (f"`{left}`, where this commit, `{head}`, leaves `{name}`", "first")


def test_a_clone_asks_what_its_origin_calls_the_main_branch(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(clone, "branch", "--move", "trunk")
    git(tmp_path, "clone", "--quiet", str(clone), "second")
    monkeypatch.setattr(review, "ROOT", tmp_path / "second")
    git(tmp_path / "second", "switch", "--quiet", "--create", "topic")
    commit(tmp_path / "second", "of the topic")
    said, content = unpacked(tmp_path)
    assert said.endswith(", leaves `origin`")
    assert content == "first"


def test_another_revision_may_be_asked_for(clone: Path, tmp_path: Path) -> None:
    git(clone, "tag", "released")
    commit(clone, "second")
    assert unpacked(tmp_path, "released")[1] == "first"


def test_a_revision_without_stacks_has_nothing(clone: Path, tmp_path: Path) -> None:
    git(clone, "rm", "--quiet", "-r", "stacks")
    (clone / "other").write_text("")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "no stacks")
    assert unpacked(tmp_path)[1] is None


def test_without_git_or_a_commit_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    said, content = unpacked(tmp_path)
    assert (said, content) == ("nothing: no commit of a Git repository is here", None)


def test_without_git_the_program_there_is_nothing(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert unpacked(tmp_path)[1] is None


@pytest.mark.parametrize("asked", ["gone", "--help", "HEAD:stacks"])
def test_a_revision_that_there_is_not_is_refused(clone: Path, tmp_path: Path, asked: str) -> None:
    with pytest.raises(SetupError, match="there is no revision"):
        unpacked(tmp_path, asked)


def test_two_histories_are_refused(clone: Path, tmp_path: Path) -> None:
    git(clone, "switch", "--quiet", "--orphan", "another")
    commit(clone, "another")
    with pytest.raises(SetupError, match="no history in common") as refused:
        unpacked(tmp_path)
    assert "--unshallow" in refused.value.fix
