"""`make review` fetches what it lacks, and compares with the revision where this commit left the main branch."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from infra.review import __main__ as rendering
from infra.review import request
from infra.review.page import Base
from tests.unit.toolchain.conftest import commit_all, git
from toolchain.checks import review
from toolchain.operating import environment, setup
from toolchain.steps import SetupError
from toolchain.tools import build, venv

EMPTY = "/nowhere"


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What was fetched or built."""
    done: list[str] = []

    def source(module: Any, path: str, folder: str) -> Path:
        done.append(path)
        return tmp_path / folder

    def built(module: Any, *binaries: str) -> Path:
        done.extend(binaries)
        return tmp_path / "built"

    monkeypatch.setattr(build, "source", source)
    monkeypatch.setattr(build, "build", built)
    return done


def test_the_base_is_the_revision_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[list[str]] = []

    def remember(words: list[str]) -> int:
        run.append(words)
        return 3

    def unpack(base: str, place: Path) -> str:
        assert (base, place.is_dir()) == ("released", True)
        return "`released`"

    monkeypatch.setattr(venv, "ensure", lambda: None)
    monkeypatch.setattr(review, "unpack_base", unpack)
    monkeypatch.setattr(review, "with_schemas", lambda found: found)
    monkeypatch.setattr(rendering, "main", remember)
    assert review.review("dev", "released") == 3
    assert run[-1][:3] == ["dev", "--page", str(review.PAGES / "dev.md")]
    assert run[-1][-2:] == ["--revision", "`released`"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Path, str, str]]:
    """What runs for a request, in a repository with one commit; the program itself is played."""
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.größe.yaml").write_text("as it was")
    commit_all(tmp_path, "main")
    run: list[tuple[Path, str, str]] = []

    def remember(target: Path, base: Base, commit: str) -> int:
        run.append((target, base.revision, commit))
        assert (base.folder / "Pulumi.größe.yaml").read_text() == "as it was"
        return 1

    monkeypatch.setattr(review, "ROOT", tmp_path)
    monkeypatch.setattr(review, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(setup, "project_lock", nullcontext)
    monkeypatch.setattr(environment, "tools", dict)
    monkeypatch.setattr(venv, "ensure", lambda: None)
    monkeypatch.setattr(review, "with_schemas", lambda found: found)
    monkeypatch.setattr(request, "write", remember)
    return run


@pytest.mark.parametrize("named", ["", "fedcba9876543210"])
def test_a_request_is_compared_with_its_base(
    asked: list[tuple[Path, str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str
) -> None:
    monkeypatch.setenv("COMMIT", named)
    head = git(tmp_path, "rev-parse", "HEAD").strip()
    assert review.main("main", str(tmp_path / "page.md")) == 1
    assert asked == [(tmp_path / "page.md", f"`{head[:12]}`", named or head)]


def test_a_request_that_cannot_begin_leaves_no_page_of_an_earlier_commit(
    asked: list[tuple[Path, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("COMMIT", raising=False)
    page = tmp_path / "page.md"
    page.write_text("of an earlier commit")
    assert review.main("gone", str(page)) == 1
    assert "there is no revision gone" in capsys.readouterr().err
    head = git(tmp_path, "rev-parse", "HEAD")[:12]
    told = f"This is about commit `{head}`.\n\nThe review failed; the log says why.\n"
    assert page.read_text() == f"{agreed.REQUEST_MARK}\n{told}"
    assert asked == []


def test_the_schemas_come_from_the_pinned_module(fetched: list[str], tmp_path: Path) -> None:
    found = review.with_schemas({"PATH": EMPTY})
    assert fetched == ["kubeconform", "k8s.io/kubernetes"]
    assert found["PATH"] == f"{EMPTY}:{tmp_path / 'built'}"
    assert found[agreed.OPENAPI] == str(tmp_path / "api" / "openapi-spec" / "swagger.json")


def test_without_them_a_review_says_why_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> Path:
        raise SetupError("Go is not installed", "install it")

    monkeypatch.setattr(build, "build", refuse)
    assert review.with_schemas({"PATH": EMPTY}) == {"PATH": EMPTY}
    assert "API server's schemas: Go is not installed" in capsys.readouterr().err


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
    return commit_all(root, text)[:12]


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
    commit_all(clone, "no stacks")
    assert unpacked(tmp_path)[1] is None


def test_without_git_or_a_commit_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    said, content = unpacked(tmp_path)
    assert (said, content) == ("nothing: this folder has no Git commit", None)


def test_without_git_the_program_there_is_nothing(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert unpacked(tmp_path)[1] is None


@pytest.mark.parametrize("asked", ["gone", "--help", "HEAD:stacks"])
def test_a_revision_that_there_is_not_is_refused(clone: Path, tmp_path: Path, asked: str) -> None:
    with pytest.raises(SetupError, match="there is no revision"):
        unpacked(tmp_path, asked)


@pytest.mark.parametrize(
    ("is_shallow", "fix"), [(True, "git fetch --unshallow"), (False, "make review BASE=<revision>")]
)
def test_two_histories_are_refused(clone: Path, tmp_path: Path, is_shallow: bool, fix: str) -> None:
    git(clone, "switch", "--quiet", "--orphan", "another")
    commit(clone, "another")
    if is_shallow:
        shutil.copyfile(clone / ".git" / "refs" / "heads" / "another", clone / ".git" / "shallow")
    with pytest.raises(SetupError, match="no common history") as refused:
        unpacked(tmp_path)
    assert fix in refused.value.fix
