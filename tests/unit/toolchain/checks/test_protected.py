"""`make up` of a protected stack: only from a clean tree, with renderings that are fresh."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.toolchain.conftest import git
from toolchain import __main__, stack_files
from toolchain.checks import protected, review
from toolchain.operating import (
    data_folder,
    environment,
    new_cluster,
    origin,
    program_calls,
    setup,
    state,
    time_estimate,
    up,
    user_backend,
)
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
        (stack_files, "check", lambda stack: None),
        (user_backend, "check", lambda stack: None),
        (venv, "ensure", lambda: None),
        (environment, "is_protected", lambda stack: "protected: true" in (tmp_path / FILE).read_text()),
        (review, "render", lambda stack, *options: 0),
    ):
        monkeypatch.setattr(module, name, value)
    return tmp_path


def refusal() -> str:
    with pytest.raises(SetupError) as refused:
        protected.ensure_committed("gpu")()
    return str(refused.value)


@pytest.mark.parametrize("shown", ["all", "normal", "no"])
def test_a_new_file_is_a_change_whatever_git_shows_this_user(clone: Path, shown: str) -> None:
    git(clone, "config", "status.showUntrackedFiles", shown)
    (clone / "stacks" / "note").write_text("of somebody")
    assert protected.changes() == ["stacks/note"]
    assert origin.of_clone(clone)["clean"] is False


def test_a_clean_tree_with_fresh_renderings_is_applied(clone: Path) -> None:
    protected.ensure_committed("gpu")()


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


def test_git_alone_speaks_of_a_clone_of_another_users(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    said = refusal()
    assert said.startswith("fatal: detected dubious ownership")
    assert said.endswith(f"git config --global --add safe.directory {clone}")


def test_a_stale_rendering_is_refused(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def stale(*arguments: str) -> int:
        asked.append(arguments)
        return 1

    monkeypatch.setattr(review, "render", stale)
    assert "make review STACK=gpu" in refusal()
    assert asked == [("gpu", "--check", "--here")], "with the data set that this machine would train on"


def test_another_stack_is_not_asked_for(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (clone / FILE).write_text("config:\n  trainstack:protected: false\n")
    monkeypatch.setattr(review, "render", lambda *arguments: pytest.fail("not protected"))
    protected.ensure_committed("gpu")()


@pytest.fixture
def made(clone: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What `make up` did; the committed rendering trains on "mnist", and /data/<name> holds data set <name>."""
    done: list[str] = []
    locks: list[str] = []
    (clone / ".gitignore").write_text("/data\n")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "ignore the data")

    @contextmanager
    def lock() -> Iterator[None]:
        assert not locks, "it would wait for itself"
        locks.append("held")
        yield
        locks.pop()

    def copy(folder: Path) -> str:
        done.append("copy")
        (clone / "data").write_text(folder.name)
        return folder.name

    def render(*_: str) -> int:
        assert locks, "another run could change what is looked at"
        data = clone / "data"
        return int(not data.exists() or data.read_text() != "mnist")

    def set_up(_: str) -> dict[str, str]:
        done.append("set up")
        return {}

    for module, name, value in (
        (setup, "project_lock", lock),
        (data_folder, "copy_verified", copy),
        (review, "render", render),
        (up, "prepare_stack", set_up),
        (up, "_forget_left_behind", lambda *_: False),
        (up, "_deployment", lambda *_: {}),
        (state, "objects", lambda _: []),
        (new_cluster, "ensure_possible", lambda *_: None),
        (up, "_update", lambda *_: done.append("update")),
        (program_calls, "inspect", lambda *_: None),
        (time_estimate, "estimate", lambda _: ""),
        (up, "closing_lines", lambda _: []),
    ):
        monkeypatch.setattr(module, name, value)
    return done


def make_up(*options: str) -> None:
    __main__.dispatch(__main__.parser().parse_args(["up", "--stack", "gpu", *options]))


def test_make_up_asks_first(clone: Path, made: list[str]) -> None:
    change(clone)
    with pytest.raises(SetupError, match="no commit has what is here: kept"):
        make_up("--data-dir", "/data/mnist")
    assert made == []


@pytest.mark.parametrize("before", ["mnist", "fashion", ""])
@pytest.mark.parametrize("given", ["mnist", "fashion", ""])
def test_the_renderings_are_compared_with_the_data_set_that_will_be_trained_on(
    clone: Path, made: list[str], before: str, given: str
) -> None:
    if before:
        (clone / "data").write_text(before)
    copied = ["copy"] if given else []
    options = ["--data-dir", f"/data/{given}"] if given else []
    if (given or before) == "mnist":
        make_up(*options)
        assert made == [*copied, "set up", "update"]
    else:
        with pytest.raises(SetupError, match="its committed renderings are not what it applies"):
            make_up(*options)
        assert made == copied


def unprotect(clone: Path) -> None:
    (clone / FILE).write_text("config: {}\n")


def replace_data(clone: Path) -> None:
    (clone / "data").write_text("fashion")


@pytest.mark.parametrize("edit", [change, stage, add, remove, rename, unprotect, replace_data])
def test_what_changes_during_set_up_is_not_applied(
    clone: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, edit: Callable[[Path], None]
) -> None:
    def set_up(_: str) -> dict[str, str]:
        edit(clone)
        return {}

    monkeypatch.setattr(up, "prepare_stack", set_up)
    with pytest.raises(SetupError, match="stack gpu is protected"):
        make_up("--data-dir", "/data/mnist")
    assert made == ["copy"]
