"""`make up` and `make down` of a protected stack: only from a clean tree, with renderings that are fresh."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.toolchain.conftest import commit_all, git
from toolchain import __main__, stack_files
from toolchain.checks import protected, review
from toolchain.machine import engine
from toolchain.operating import (
    doctor,
    environment,
    program_calls,
    provenance,
    pulumi_cli,
    setup,
    state,
    time_estimate,
    up,
    update,
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
    commit_all(tmp_path, "start")
    for module, name, value in (
        (protected, "ROOT", tmp_path),
        (stack_files, "STACKS", tmp_path / "stacks"),
        (stack_files, "check", lambda stack: None),
        (user_backend, "check", lambda stack: None),
        (venv, "ensure", lambda: None),
        (venv, "is_complete", lambda: True),
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
    assert provenance.of_clone(clone)["clean"] is False


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


def unprotect(clone: Path) -> None:
    (clone / FILE).write_text("config: {}\n")


def hide_from_index(flag: str, edit: Callable[[Path], None]) -> Callable[[Path], None]:
    """`edit`, in a clone whose index has `flag` for all files."""

    def hidden(clone: Path) -> None:
        git(clone, "update-index", flag, "kept", FILE)
        edit(clone)

    return hidden


FLAGS = ("--assume-unchanged", "--skip-worktree")
EDITS: dict[str, tuple[Callable[[Path], None], str]] = {
    "changed": (change, "kept"),
    "staged": (stage, "kept"),
    "added": (add, "fresh"),
    "removed": (remove, "kept"),
    "renamed": (rename, "kept, moved"),
    "no longer protected": (unprotect, FILE),
    **{f"changed, {flag}": (hide_from_index(flag, change), "kept") for flag in FLAGS},
    **{f"removed, {flag}": (hide_from_index(flag, remove), "kept") for flag in FLAGS},
    **{f"no longer protected, {flag}": (hide_from_index(flag, unprotect), FILE) for flag in FLAGS},
}
"""What somebody does to a clone without a commit, and the files that are named then."""


@pytest.mark.parametrize("edit", EDITS)
def test_what_no_commit_has_is_refused_and_named(clone: Path, edit: str) -> None:
    does, named = EDITS[edit]
    does(clone)
    assert f"these files have changes without a commit: {named}\n" in refusal()


def test_a_sparse_checkout_hides_no_file(clone: Path) -> None:
    git(clone, "sparse-checkout", "set", "--no-cone", "stacks")
    assert not (clone / "kept").exists()
    assert "these files have changes without a commit: kept\n" in refusal()


SPELLINGS = {
    "plain": "trainstack:protected: true",
    "in quotes": '"trainstack:protected": true',
    "with an escape": '"trainstack:pr\\u006ftected": true',
    "in hexadecimal": '"trainstack:pr\\x6ftected": True',
    "over two lines": '? "trainstack:pro\\\n    tected"\n  : true',
    "as text": "trainstack:protected: 'true'",
}


@pytest.mark.parametrize("where", ["here", "in the commit"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_parsed_file_says_that_a_stack_is_protected(clone: Path, spelling: str, where: str) -> None:
    (clone / FILE).write_text(f"# {where}\nconfig:\n  {SPELLINGS[spelling]}\n")
    if where == "in the commit":
        git(clone, "commit", "--quiet", "--all", "--message", spelling)
        unprotect(clone)
    assert f"these files have changes without a commit: {FILE}\n" in refusal()


def test_a_file_of_the_commit_that_is_refused_protects(clone: Path) -> None:
    (clone / FILE).write_text("config:\n  trainstack:protected: maybe\n")
    git(clone, "commit", "--quiet", "--all", "--message", "wrong")
    unprotect(clone)
    assert f"these files have changes without a commit: {FILE}\n" in refusal()


BASE = "stacks/base.yaml"
EXTENDING = "config:\n  trainstack:extends: base\n"
PROTECTED = "config:\n  trainstack:protected: true\n"


def edit_base(clone: Path) -> None:
    (clone / BASE).write_text(f"{PROTECTED}  trainstack:job: {{name: other}}\n")


def unprotect_base(clone: Path) -> None:
    (clone / BASE).write_text("config: {}\n")


def leave_base(clone: Path) -> None:
    (clone / FILE).write_text("config:\n  trainstack:job: {name: mnist}\n")


def override_base(clone: Path) -> None:
    (clone / FILE).write_text(f"{EXTENDING}  trainstack:protected: false\n")


def remove_base(clone: Path) -> None:
    (clone / BASE).unlink()
    leave_base(clone)


BASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "changed": (edit_base, BASE),
    "no longer protected": (unprotect_base, BASE),
    "no longer extended": (leave_base, FILE),
    "overridden": (override_base, FILE),
    "removed": (remove_base, f"{FILE}, {BASE}"),
    **{f"{flag}, no longer protected": (hide_from_index(flag, unprotect_base), BASE) for flag in FLAGS},
}


@pytest.mark.parametrize("edit", BASES)
@pytest.mark.parametrize("where", ["the base", "the stack"])
def test_a_base_that_no_commit_has_is_refused_and_named(clone: Path, edit: str, where: str) -> None:
    (clone / BASE).write_text(PROTECTED if where == "the base" else "config:\n")
    (clone / FILE).write_text(EXTENDING + ("  trainstack:protected: true\n" if where == "the stack" else ""))
    commit_all(clone, "extend")
    protected.ensure_committed("gpu")()
    does, named = BASES[edit]
    does(clone)
    assert f"these files have changes without a commit: {named}\n" in refusal()


def test_a_base_protects_those_alone_that_extend_it(clone: Path) -> None:
    (clone / BASE).write_text(PROTECTED)
    (clone / FILE).write_text("config:\n  trainstack:job: {name: mnist}\n")
    commit_all(clone, "another's base")
    change(clone)
    protected.ensure_committed("gpu")()


def test_the_models_are_asked_again_when_the_base_has_changed(clone: Path) -> None:
    (clone / FILE).write_text(EXTENDING)
    for kind in ("kind", "existing"):
        (clone / BASE).write_text(f"config:\n  trainstack:cluster: {{kind: {kind}}}\n")
        assert environment.cluster_kind("gpu") == kind


@pytest.mark.parametrize("text", ["config: {} # protected: true\n", "config: {a:b: protected}\n"])
def test_the_word_alone_protects_nothing(clone: Path, text: str) -> None:
    (clone / FILE).write_text(text)
    git(clone, "commit", "--quiet", "--all", "--message", "unprotect")
    change(clone)
    protected.ensure_committed("gpu")()


def test_a_stack_outside_of_git_is_not_asked_for(clone: Path) -> None:
    (clone / ".git").rename(clone / "was-git")
    unprotect(clone)
    protected.ensure_committed("gpu")()


def test_a_clone_without_a_commit_has_protected_nothing(clone: Path) -> None:
    git(clone, "switch", "--quiet", "--orphan", "another")
    (clone / "stacks").mkdir()
    unprotect(clone)
    protected.ensure_committed("gpu")()


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
    git(clone, "commit", "--quiet", "--all", "--message", "unprotect")
    change(clone)
    monkeypatch.setattr(review, "render", lambda *arguments: pytest.fail("not protected"))
    protected.ensure_committed("gpu")()


@pytest.fixture
def made(clone: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What `make up` did; the committed rendering trains on "mnist", and /data/<name> holds data set <name>."""
    done: list[str] = []
    locks: list[str] = []
    (clone / ".gitignore").write_text("/data\n")
    commit_all(clone, "ignore the data")

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

    def stream(_: Mapping[str, str], verb: str, *options: str) -> int:
        done.append(verb)
        return 0

    for module, name, value in (
        (setup, "project_lock", lock),
        (setup, "copy_verified", copy),
        (review, "render", render),
        (up, "prepare_stack", set_up),
        (up, "_forget_left_behind", lambda *_: False),
        (pulumi_cli, "deployment", lambda *_: {}),
        (state, "objects", lambda _: []),
        (doctor, "ensure_node_possible", lambda *_: None),
        (update, "ensure_contained", lambda *_: None),
        (pulumi_cli, "stream", stream),
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
    with pytest.raises(SetupError, match="these files have changes without a commit: kept"):
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
        assert made == [*copied, "set up", "preview", "up"]
    else:
        with pytest.raises(SetupError, match="its committed renderings are stale"):
            make_up(*options)
        assert made == copied


def replace_data(clone: Path) -> None:
    (clone / "data").write_text("fashion")


LATER = {
    "changed": change,
    "no longer protected": unprotect,
    "no longer protected, in secret": hide_from_index("--assume-unchanged", unprotect),
    "other data": replace_data,
}


@pytest.mark.parametrize("edit", LATER)
def test_what_changes_during_set_up_is_not_applied(
    clone: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, edit: str
) -> None:
    def set_up(_: str) -> dict[str, str]:
        LATER[edit](clone)
        return {}

    monkeypatch.setattr(up, "prepare_stack", set_up)
    with pytest.raises(SetupError, match="stack gpu is protected"):
        make_up("--data-dir", "/data/mnist")
    assert made == ["copy", "preview"]


@pytest.mark.parametrize("edit", LATER)
def test_what_changes_between_two_plans_is_not_applied(
    clone: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, edit: str
) -> None:
    """The first update fails; what stopped it is mended, and `make up` plans again."""
    (clone / "data").write_text("mnist")

    def stream(_: Mapping[str, str], verb: str, *options: str) -> int:
        made.append(verb)
        if verb == "up":
            LATER[edit](clone)
        return int(verb == "up")

    monkeypatch.setattr(pulumi_cli, "stream", stream)
    monkeypatch.setattr(up, "_wait_for_api", lambda *_: True)
    with pytest.raises(SetupError, match="stack gpu is protected"):
        make_up()
    assert made == ["set up", "preview", "up", "preview"]


@pytest.fixture
def stands(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack that is up, in a kind cluster."""
    for module, name, value in (
        (environment, "cluster", lambda stack: None),
        (state, "has_resources", lambda deployment: True),
        (state, "deployment", lambda stack: {}),
        (state, "own_cluster", lambda deployment: "trainstack-gpu"),
        (up, "_set_up", up.prepare_stack),
        (engine, "stop", lambda: None),
    ):
        monkeypatch.setattr(module, name, value)


def make_down() -> None:
    __main__.dispatch(__main__.parser().parse_args(["down", "--stack", "gpu"]))


def test_a_protected_stack_is_taken_down_from_its_commit(clone: Path, made: list[str], stands: None) -> None:
    make_down()
    assert made == ["set up", "destroy"]


@pytest.mark.parametrize("edit", [change, unprotect])
def test_a_protected_stack_is_not_taken_down_from_elsewhere(
    clone: Path, made: list[str], stands: None, edit: Callable[[Path], None]
) -> None:
    edit(clone)
    with pytest.raises(SetupError, match="stack gpu is protected"):
        make_down()
    assert made == []


def test_what_changes_before_the_destruction_stops_it(
    clone: Path, made: list[str], stands: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "_set_up", lambda stack: change(clone))
    with pytest.raises(SetupError, match="stack gpu is protected"):
        make_down()
    assert made == []
