"""An edit of the state loses no update of somebody else's, whatever backend it is in."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolchain.operating import pulumi_cli, stack_locks, user_backend
from toolchain.steps import SetupError

FOLDER, BUCKET = "a folder", "s3://bucket"
# A pulumi that keeps a deployment in a file, and does before and after each command what the test has asked for.
PULUMI = r"""import json, os, shlex, subprocess, sys
from pathlib import Path

here = Path(__file__).parent
state, updates, calls = here / "state.json", here / "updates", here / "calls"
verb = sys.argv[2]
with calls.open("a") as file:
    file.write(f"{verb}\n")
count = calls.read_text().split().count(verb)


def hook(when):
    step = here / f"{when}-{verb}-{count}"
    if step.exists():
        exec(step.read_text())


def update(name):
    if list(here.glob("shared/.pulumi/locks/**/*.json")):
        return  # as Pulumi, which fails then
    told = json.loads(state.read_text())
    told["deployment"]["resources"].append({"urn": name})
    state.write_text(json.dumps(told))
    updates.open("a").write(f"{name}\n")


def refuse(words):
    print(words, file=sys.stderr)
    sys.exit(255)


hook("before")
if verb == "export":
    print(state.read_text())
elif verb == "history":
    done = updates.read_text().split() if updates.exists() else []
    print(json.dumps([{"kind": "update", "endTime": each} for each in reversed(done)]))
elif verb == "import":
    state.write_text(sys.stdin.read())
    print("Import complete.")
hook("after")
"""


class Backend:
    """A backend with one stack, and what somebody else does to it in the middle of our commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "state.json").write_text(
            json.dumps({"version": 3, "deployment": {"resources": [{"urn": "a"}]}})
        )

    def when(self, moment: str, verb: str, count: int, happens: str) -> None:
        """Python that is run before or after the `count`th command of this verb."""
        (self.folder / f"{moment}-{verb}-{count}").write_text(happens)

    def urns(self) -> list[str]:
        told = json.loads((self.folder / "state.json").read_text())
        return [each["urn"] for each in told["deployment"]["resources"]]

    def updates(self) -> list[str]:
        """The updates of somebody else that Pulumi has not refused."""
        file = self.folder / "updates"
        return file.read_text().split() if file.exists() else []

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().split()

    def edit(self, edit: Callable[[dict[str, Any]], Any] | None = None) -> Any:
        return pulumi_cli.edit_state({"PATH": f"{self.folder}:{os.environ['PATH']}"}, "dev", edit or add)


def add(deployment: dict[str, Any]) -> list[str]:
    """Add our own resource where it is missing; returns what was added."""
    if {"urn": "ours"} in deployment["resources"]:
        return []
    deployment["resources"].append({"urn": "ours"})
    return ["ours"]


@pytest.fixture(params=[FOLDER, BUCKET])
def backend(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backend:
    (tmp_path / "pulumi").write_text(f"#!{sys.executable} -IS\n{PULUMI}")
    (tmp_path / "pulumi").chmod(0o755)
    (tmp_path / "shared" / ".pulumi").mkdir(parents=True)
    url = (tmp_path / "shared").as_uri() if request.param == FOLDER else BUCKET
    monkeypatch.setenv(user_backend.BACKEND, url)
    monkeypatch.setattr(pulumi_cli, "AGAIN_S", 0.0)
    return Backend(tmp_path)


def test_what_is_there_is_edited(backend: Backend) -> None:
    assert backend.edit() == ["ours"], "what the edit that was imported has returned"
    assert backend.urns() == ["a", "ours"]
    assert backend.calls().count("import") == 1


def test_nothing_to_edit_imports_nothing(backend: Backend) -> None:
    assert backend.edit(lambda deployment: "nothing") == "nothing"
    assert "import" not in backend.calls()


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_update_between_the_commands_is_kept(backend: Backend, moment: str, count: int) -> None:
    backend.when(moment, "export", count, 'update("theirs")')
    told = ""
    try:
        backend.edit()
    except SetupError as error:
        told = str(error)
    is_lost = "theirs" in backend.updates() and "theirs" not in backend.urns()
    assert is_lost == ("may be lost" in told)
    assert not is_lost or (moment, count) == ("after", 2), "only in the moment before the import"
    assert "ours" in backend.urns()
    assert ("theirs" in backend.updates()) is (user_backend.folder() is None)


@pytest.mark.parametrize("backend", [BUCKET], indirect=True)
def test_an_update_in_the_moment_before_the_import_is_told(backend: Backend) -> None:
    """A service or a bucket locks the import alone."""
    backend.when("before", "import", 1, 'update("theirs")')
    with pytest.raises(SetupError, match=r"another update of stack dev ended.*may be lost"):
        backend.edit()


def test_an_update_that_takes_our_edit_back_is_edited_again(backend: Backend) -> None:
    backend.when("before", "export", 3, 'state.write_text(state.read_text().replace("ours", "theirs"))')
    backend.edit()
    assert sorted(backend.urns()) == ["a", "ours", "theirs"]


@pytest.mark.parametrize("backend", [BUCKET], indirect=True)
@pytest.mark.parametrize(
    "refusal",
    [
        "the stack is currently locked by 1 lock(s)",
        "[409] Conflict: Another update is currently in progress.",
        "unexpected end of JSON input",
        "2 errors occurred:\n    1) stat /.pulumi/locks/organization/trainstack/dev/a.json: no such file or directory",
    ],
)
def test_an_import_that_is_refused_for_a_lock_is_tried_again(backend: Backend, refusal: str) -> None:
    for count in (1, 2):
        backend.when("before", "import", count, f"refuse({f'error: {refusal}'!r})")
    backend.edit()
    assert backend.urns() == ["a", "ours"]
    assert backend.calls().count("import") == 3


@pytest.mark.parametrize("backend", [BUCKET], indirect=True)
def test_a_lock_that_does_not_go_is_told_with_pulumis_words(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_locks, "WAIT_S", 0.5)
    said = "error: the stack is currently locked by 1 lock(s): created by alice@far (pid 7) at 2026-11-25T21:58:03Z"
    for count in range(1, 200):
        backend.when("before", "import", count, f"refuse({said!r})")
    with pytest.raises(SetupError, match=r"alice@far \(pid 7\)") as caught:
        backend.edit()
    assert "`pulumi cancel --yes --stack dev`" in str(caught.value)
    assert backend.urns() == ["a"]


def test_another_failure_is_told_at_once(backend: Backend) -> None:
    backend.when("before", "import", 1, 'refuse("error: snapshot integrity failure")')
    with pytest.raises(SetupError, match="snapshot integrity failure"):
        backend.edit()
    assert backend.calls().count("import") == 1


@pytest.mark.parametrize("backend", [BUCKET], indirect=True)
def test_a_state_that_never_rests_is_left_alone(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi_cli, "EDITS", 3)
    for count in range(1, 7):
        backend.when("after", "export", count, f'update("theirs-{count}")')
    with pytest.raises(SetupError, match="keeps changing"):
        backend.edit()
    assert "import" not in backend.calls()


@pytest.mark.parametrize("backend", [FOLDER], indirect=True)
def test_the_lock_of_a_folder_is_held_from_the_first_export_to_the_last(backend: Backend) -> None:
    locks = str(backend.folder / "shared/.pulumi/locks/organization/trainstack/dev")
    seen = f'print(os.listdir({locks!r}), file=(here / "seen").open("a"))'
    for verb, count in (("export", 1), ("export", 2), ("import", 1), ("export", 3)):
        backend.when("before", verb, count, seen)
    backend.edit()
    held = (backend.folder / "seen").read_text().splitlines()
    assert len(held) == 4
    assert len({*held}) == 1
    assert held[0].count(".json") == 1
    assert stack_locks.locks("dev") == []
