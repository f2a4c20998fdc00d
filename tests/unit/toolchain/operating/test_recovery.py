"""Locks and half-done operations of a Pulumi that was killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from toolchain.operating import recovery, state_copies
from toolchain.steps import SetupError


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(recovery, "_LOCKS", tmp_path / "locks")
    monkeypatch.setattr(state_copies, "STACKS", tmp_path)
    (tmp_path / "locks" / "dev").mkdir(parents=True)
    return tmp_path


def lock(state: Path, pid: int, host: str | None = None) -> Path:
    file = state / "locks" / "dev" / f"{pid}.json"
    file.write_text(json.dumps({"pid": pid, "hostname": host or socket.gethostname(), "username": "root"}))
    return file


def dead_process() -> int:
    ended = subprocess.Popen(["true"])
    ended.wait()
    return ended.pid


def test_the_lock_of_a_dead_process_is_removed(state: Path) -> None:
    file = lock(state, dead_process())
    recovery.release("dev")
    assert not file.exists()


def test_a_process_number_that_something_else_has_now_counts_as_dead(state: Path) -> None:
    file = lock(state, os.getpid())
    recovery.release("dev")
    assert not file.exists()


@pytest.mark.parametrize("name", ["half.json", "half.json.18ea57588220ceab.tmp"])
@pytest.mark.parametrize("text", ["", '{"pid": 1', "[]"])
def test_a_lock_that_was_left_half_written_is_removed(state: Path, name: str, text: str) -> None:
    file = state / "locks" / "dev" / name
    file.write_text(text)
    os.utime(file, (0, 0))
    recovery.release("dev")
    assert not file.exists()


def test_a_lock_that_is_being_written_is_waited_for(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = state / "locks" / "dev" / "one.json.18ea57588220ceab.tmp"
    half.write_text("")
    pauses = []

    def renamed(seconds: float) -> None:
        pauses.append(seconds)
        half.unlink()
        lock(state, os.getpid(), host="elsewhere")

    monkeypatch.setattr(recovery.time, "sleep", renamed)  # type: ignore[attr-defined]
    assert recovery.locks("dev") == [], "the half has gone; it is never removed by us"
    assert len(pauses) == 1
    assert [each.host for each in recovery.locks("dev")] == ["elsewhere"]


def living_pulumi(folder: Path, **variables: str) -> subprocess.Popen[bytes]:
    (folder / "pulumi").symlink_to("/bin/sleep")
    running = subprocess.Popen(
        [folder / "pulumi", "600"],
        env={**os.environ, **variables},
        # a shell that runs us in the background has us ignore it, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while Path(f"/proc/{running.pid}/comm").read_text().strip() != "pulumi":
        time.sleep(0.01)  # exec is not over yet
    return running


def test_a_pulumi_that_outlives_its_make_up_is_ended(state: Path, tmp_path: Path) -> None:
    running = living_pulumi(tmp_path, TRAINSTACK_PARENT=str(dead_process()))
    file = lock(state, running.pid)
    recovery.release("dev")
    assert running.wait(timeout=300) == -signal.SIGINT
    assert not file.exists()


def test_a_living_pulumi_keeps_its_lock(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "WAIT_S", 0.2)
    running = living_pulumi(tmp_path)
    try:
        file = lock(state, running.pid)
        with pytest.raises(SetupError, match=f"process {running.pid}"):
            recovery.release("dev")
        assert file.exists()
    finally:
        running.kill()
        running.wait()


def test_a_pulumi_that_has_ended_but_was_not_reaped_counts_as_dead(state: Path, tmp_path: Path) -> None:
    (tmp_path / "pulumi").symlink_to("/bin/true")
    ended = subprocess.Popen([tmp_path / "pulumi"])
    while " Z " not in Path(f"/proc/{ended.pid}/stat").read_text():
        time.sleep(0.01)
    file = lock(state, ended.pid)
    recovery.release("dev")
    assert not file.exists()
    ended.wait()


def test_a_lock_of_another_machine_is_never_removed(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "WAIT_S", 0.2)
    file = lock(state, dead_process(), host="elsewhere")
    with pytest.raises(SetupError, match="elsewhere"):
        recovery.release("dev")
    assert file.exists()


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
    state: Path, latest: dict[str, object] | None, pending: bool, resources: bool
) -> None:
    (state / "dev.json").write_text(json.dumps({"version": 3, "checkpoint": {"latest": latest}}))
    found = recovery.deployment("dev")
    assert recovery.has_pending(found) is pending
    assert recovery.has_resources(found) is resources


def test_a_stack_that_never_was_up_has_nothing(state: Path) -> None:
    assert not recovery.has_resources(recovery.deployment("never"))
