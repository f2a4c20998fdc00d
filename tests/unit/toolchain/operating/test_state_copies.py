"""A state that a full disk has torn is healed from the latest whole copy; what the state says of a stack."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from toolchain.operating import state, state_copies
from toolchain.steps import SetupError


def written(*urns: str) -> str:
    resources = [{"urn": urn} for urn in urns]
    return json.dumps({"version": 3, "checkpoint": {"latest": {"resources": resources}}})


WHOLE = written("now")
TORN = ["", WHOLE[:1], WHOLE[: len(WHOLE) // 2], WHOLE[:-1], "\0" * len(WHOLE)]


@pytest.fixture(autouse=True)
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "stacks"
    folder.mkdir()
    monkeypatch.setattr(state_copies, "STACKS", folder)
    monkeypatch.setattr(state_copies, "COPIES", tmp_path / "copies")
    return folder


def put(path: Path, text: str, second: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, (second, second))
    return path


def urns() -> list[str]:
    return [each["urn"] for each in state.deployment("dev").get("resources", [])]


@pytest.mark.parametrize("torn", TORN, ids=["empty", "a byte", "half", "all but a byte", "never written"])
@pytest.mark.parametrize(
    ("backup", "copy", "taken"),
    [
        ((written("backup"), 2), (written("copy"), 1), "backup"),
        ((written("backup"), 1), (written("copy"), 2), "copy"),
        ((WHOLE[:9], 2), (written("copy"), 1), "copy"),
        ((written("backup"), 2), (WHOLE[:9], 1), "backup"),
        (None, (written("copy"), 1), "copy"),
    ],
)
def test_the_latest_whole_copy_is_taken(
    stacks: Path,
    capsys: pytest.CaptureFixture[str],
    torn: str,
    backup: tuple[str, int] | None,
    copy: tuple[str, int],
    taken: str,
) -> None:
    file = put(stacks / "dev.json", torn, 3)
    if backup:
        put(stacks / "dev.json.bak", *backup)
    put(state_copies.COPIES / "dev.json", *copy)
    assert urns() == [taken], "also before anything is healed"
    assert file.read_text() == torn, "reading changes nothing"

    state_copies.heal("dev")

    assert file.read_text() == written(taken)
    assert "state of stack dev was damaged" in capsys.readouterr().err


def test_a_whole_state_is_left_as_it_is(stacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = put(stacks / "dev.json", WHOLE, 1)
    put(stacks / "dev.json.bak", written("later"), 2)
    state_copies.heal("dev")
    assert (file.read_text(), urns(), capsys.readouterr().err) == (WHOLE, ["now"], "")


def test_a_stack_that_never_was_up_has_nothing_to_heal_or_keep(stacks: Path) -> None:
    put(state_copies.COPIES / "dev.json", written("of a stack that was removed"), 1)
    state_copies.heal("dev")
    state_copies.keep("dev")
    assert urns() == []
    assert list(stacks.iterdir()) == []


def test_a_state_without_a_whole_copy_is_an_error_and_not_an_empty_one(stacks: Path) -> None:
    file = put(stacks / "dev.json", TORN[2], 2)
    put(stacks / "dev.json.bak", "", 1)
    for ask in (urns, lambda: state_copies.heal("dev"), lambda: state_copies.keep("dev")):
        with pytest.raises(SetupError, match=rf"(?s){file}.*lost-state"):
            ask()


def test_what_is_kept_is_what_pulumi_is_about_to_change(stacks: Path) -> None:
    file = put(stacks / "dev.json", WHOLE, 1)
    state_copies.keep("dev")
    file.write_text("")
    state_copies.heal("dev")
    assert file.read_text() == WHOLE
    assert [path.stat().st_mode & 0o777 for path in (file, state_copies.COPIES / "dev.json")] == [
        0o600,
        0o600,
    ]


def test_without_room_for_the_copy_pulumi_is_not_called(
    stacks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(stacks / "dev.json", WHOLE, 1)
    state_copies.keep("dev")

    def full(descriptor: int) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    file.write_text(written("now", "and more"))
    with pytest.raises(SetupError, match=r"(?s)No space left on device.*disk-full.md.*nothing was changed"):
        state_copies.keep("dev")
    assert [path.name for path in state_copies.COPIES.iterdir()] == ["dev.json"]
    assert (state_copies.COPIES / "dev.json").read_text() == WHOLE, "the earlier copy stays whole"


@pytest.mark.parametrize(("number", "fix"), [(errno.EACCES, "sudo chown"), (errno.EIO, "")])
def test_a_state_that_cannot_be_written_for_another_reason_frees_no_disk(
    stacks: Path, monkeypatch: pytest.MonkeyPatch, number: int, fix: str
) -> None:
    put(stacks / "dev.json", WHOLE, 1)

    def fail(descriptor: int) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SetupError, match=f"cannot be written: {os.strerror(number)}") as raised:
        state_copies.keep("dev")
    assert raised.value.fix.startswith(fix) if fix else not raised.value.fix


@pytest.mark.parametrize(
    ("latest", "pending", "resources"),
    [
        ({"pending_operations": [{"type": "creating"}]}, True, True),
        ({"resources": [{"urn": "urn:pulumi:dev"}]}, False, True),
        ({}, False, False),
        (None, False, False),
    ],
)
def test_what_the_state_says_of_a_stack(
    stacks: Path, latest: dict[str, object] | None, pending: bool, resources: bool
) -> None:
    (stacks / "dev.json").write_text(json.dumps({"version": 3, "checkpoint": {"latest": latest}}))
    found = state.deployment("dev")
    assert state.has_pending(found) is pending
    assert state.has_resources(found) is resources
