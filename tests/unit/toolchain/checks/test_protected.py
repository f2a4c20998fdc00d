"""`make up` of a protected stack: only from a clean tree, with renderings that are fresh."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.unit.toolchain.conftest import git
from toolchain import __main__
from toolchain.checks import protected, review
from toolchain.operating import backend, environment, setup, up
from toolchain.steps import SetupError
from toolchain.tools import venv

FILE = "stacks/Pulumi.gpu.yaml"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Git tree with a protected stack, committed; its renderings are fresh."""
    (tmp_path / "stacks").mkdir()
    (tmp_path / FILE).write_text("config:\n  trainstack:protected: true\n")
    (tmp_path / "kept").write_text("as it was")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "start")
    for module, name, value in (
        (protected, "ROOT", tmp_path),
        (protected, "STACKS", tmp_path / "stacks"),
        (backend, "check_stack", lambda stack: None),
        (venv, "ensure", lambda: None),
        (setup, "project_lock", nullcontext),
        (environment, "is_protected", lambda stack: "protected: true" in (tmp_path / FILE).read_text()),
        (review, "review", lambda stack, *options: 0),
    ):
        monkeypatch.setattr(module, name, value)
    return tmp_path


def refusal() -> str:
    with pytest.raises(SetupError) as refused:
        protected.ensure_reviewed("gpu")
    return str(refused.value)


def test_a_clean_tree_with_fresh_renderings_is_applied(clone: Path) -> None:
    protected.ensure_reviewed("gpu")


def change(clone: Path) -> None:
    (clone / "kept").write_text("otherwise")


def stage(clone: Path) -> None:
    change(clone)
    git(clone, "add", "--all")


def add(clone: Path) -> None:
    (clone / "fresh").write_text("")


def remove(clone: Path) -> None:
    (clone / "kept").unlink()


def rename(clone: Path) -> None:
    git(clone, "mv", "kept", "moved")


@pytest.mark.parametrize(
    ("edit", "named"),
    [(change, "kept"), (stage, "kept"), (add, "fresh"), (remove, "kept"), (rename, "moved")],
)
def test_what_no_commit_has_is_refused_and_named(
    clone: Path, edit: Callable[[Path], None], named: str
) -> None:
    edit(clone)
    assert f"no commit has what is here: {named}\n" in refusal()


def test_many_changes_are_counted(clone: Path) -> None:
    for number in range(7):
        (clone / f"fresh-{number}").write_text("")
    assert "fresh-4 and 2 more\n" in refusal()


def test_a_folder_outside_of_git_is_refused(clone: Path) -> None:
    (clone / ".git").rename(clone / "was-git")
    assert "clone of its repository" in refusal()


def test_a_stale_rendering_is_refused(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def stale(*arguments: str) -> int:
        asked.append(arguments)
        return 1

    monkeypatch.setattr(review, "review", stale)
    assert "make review STACK=gpu" in refusal()
    assert asked == [("gpu", "--check", "--here")], "with the data set that this machine would train on"


def test_another_stack_is_not_asked_for(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (clone / FILE).write_text("config:\n  trainstack:protected: false\n")
    monkeypatch.setattr(review, "review", lambda *arguments: pytest.fail("not protected"))
    protected.ensure_reviewed("gpu")


def test_make_up_asks_first(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(clone)
    monkeypatch.setattr(up, "up", lambda *arguments: pytest.fail("nothing may be touched"))
    with pytest.raises(SetupError, match="stack gpu is protected"):
        __main__.dispatch(__main__.parser().parse_args(["up", "--stack", "gpu"]))
