"""Locks of a stack: those of the dead go, the living are waited for, in this clone's backend and in a shared one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.atomic_file import write_whole
from toolchain.machine import processes
from toolchain.operating import stack_locks, user_backend
from toolchain.operating.stack_locks import PARENT
from toolchain.paths import ROOT
from toolchain.steps import SetupError

OURS, SHARED = "this clone's", "shared"
ELSEWHERE = "elsewhere"
SINCE = "2026-11-25T21:58:03.123456789Z"
FILES = "locks/organization/trainstack/dev"


@pytest.fixture(params=[OURS, SHARED])
def backend(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of a backend, this clone's own or one that the user has named; the folder of its locks on dev is there."""
    folder = tmp_path / "a folder"
    (folder / ".pulumi" / FILES).mkdir(parents=True)
    for name in (user_backend.BACKEND, user_backend.CLONE):
        monkeypatch.delenv(name, raising=False)
    if request.param == OURS:
        monkeypatch.setattr(user_backend, "ROOT", tmp_path)
        monkeypatch.setattr(user_backend, "STATE", folder)
    else:
        monkeypatch.setenv(user_backend.BACKEND, f"{folder.as_uri()}?metadata=skip")
    return folder


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for long."""
    monkeypatch.setattr(stack_locks, "WAIT_S", 0.2)
    monkeypatch.setattr(stack_locks, "ORPHAN_S", 0.2)


def lock(backend: Path, pid: int, host: str | None = None, since: str | None = None) -> Path:
    """A lock file as Pulumi writes it; `since` is now where it is not given."""
    file = backend / ".pulumi" / FILES / f"{pid}.json"
    told = {
        "pid": pid,
        "username": "alice",
        "hostname": host or socket.gethostname(),
        "timestamp": datetime.now(UTC).isoformat() if since is None else since,
    }
    file.write_text(json.dumps(told))
    return file


def dead_process() -> int:
    ended = subprocess.Popen(["true"])
    ended.wait()
    return ended.pid


@contextmanager
def living(folder: Path, name: str = "pulumi", **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this name."""
    (folder / name).symlink_to("/bin/sleep")
    running = subprocess.Popen(
        [folder / name, "600"],
        env={**os.environ, **variables},
        # a shell that runs us in the background has us ignore it, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while Path(f"/proc/{running.pid}/comm").read_text().strip() != name:
        time.sleep(0.01)  # exec is not over yet
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def test_the_lock_of_a_dead_process_is_removed(backend: Path) -> None:
    file = lock(backend, dead_process())
    stack_locks.release("dev")
    assert not file.exists()


def test_the_lock_of_a_process_that_was_not_reaped_is_removed(backend: Path, tmp_path: Path) -> None:
    (tmp_path / "pulumi").symlink_to("/bin/true")
    ended = subprocess.Popen([tmp_path / "pulumi"])
    while " Z " not in Path(f"/proc/{ended.pid}/stat").read_text():
        time.sleep(0.01)
    file = lock(backend, ended.pid)
    stack_locks.release("dev")
    assert not file.exists()
    ended.wait()


@pytest.mark.parametrize(("program", "hours"), [("other", 0), ("pulumi", 1), ("pulumi", 24 * 400)])
def test_a_process_number_that_a_later_program_has_now_counts_as_dead(
    backend: Path, tmp_path: Path, program: str, hours: int
) -> None:
    """Another program, or a Pulumi that began after the lock was written."""
    with living(tmp_path, program) as running:
        file = lock(backend, running.pid, since=(datetime.now(UTC) - timedelta(hours=hours)).isoformat())
        stack_locks.release("dev")
        assert not file.exists()
        assert running.poll() is None


@pytest.mark.parametrize("since", [None, "", "yesterday", "2999-01-01T00:00:00Z"])
def test_a_living_pulumi_keeps_its_lock(backend: Path, tmp_path: Path, soon: None, since: str | None) -> None:
    """Also where the lock does not say since when, or says a time that has not come."""
    with living(tmp_path) as running:
        file = lock(backend, running.pid, since=since)
        with pytest.raises(
            SetupError, match=rf"stack dev is locked: process {running.pid} of alice on (?s:.*)kill -INT"
        ):
            stack_locks.release("dev")
        assert file.exists()
        assert running.poll() is None


def test_a_lock_is_waited_for_until_it_goes(backend: Path, tmp_path: Path) -> None:
    with living(tmp_path) as running:
        file = lock(backend, running.pid)
        threading.Timer(0.5, file.unlink).start()
        began = time.monotonic()
        stack_locks.release("dev")
        assert time.monotonic() - began > 0.4
        assert running.poll() is None


def test_a_pulumi_that_outlives_its_make_up_is_ended(backend: Path, tmp_path: Path) -> None:
    with living(tmp_path, **{PARENT: str(dead_process())}) as running:
        file = lock(backend, running.pid)
        stack_locks.release("dev")
        assert running.wait(timeout=300) == -signal.SIGINT
        assert not file.exists()


def test_an_orphan_that_does_not_end_keeps_its_lock(
    backend: Path, tmp_path: Path, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with living(tmp_path, **{PARENT: str(dead_process())}) as running:
        file = lock(backend, running.pid)
        with monkeypatch.context() as changed:
            changed.setattr(os, "kill", lambda *_: None)
            with pytest.raises(SetupError, match=f"process {running.pid}"):
                stack_locks.release("dev")
        assert file.exists()


def test_a_lock_of_another_host_is_never_taken_for_dead(backend: Path, soon: None) -> None:
    file = lock(backend, dead_process(), host=ELSEWHERE, since=SINCE)
    with pytest.raises(SetupError) as caught:
        stack_locks.release("dev")
    assert file.exists()
    since = datetime.fromisoformat(SINCE).astimezone()
    for told in (
        ELSEWHERE,
        "alice",
        file.stem,
        f"{since:%Y-%m-%d %H:%M:%S}",
        "`pulumi cancel --yes --stack dev`",
    ):
        assert told in str(caught.value)


def test_a_process_of_this_host_with_the_number_of_another_hosts_is_left_alone(
    backend: Path, tmp_path: Path, soon: None
) -> None:
    """It was ended, were it an orphan, and the lock of the other host removed."""
    with living(tmp_path, **{PARENT: str(dead_process())}) as running:
        file = lock(backend, running.pid, host=ELSEWHERE)
        with pytest.raises(SetupError, match=ELSEWHERE):
            stack_locks.release("dev")
        assert file.exists()
        assert running.poll() is None


DAMAGED = ["", '{"pid": 1', "[]", "{}", '{"pid": "one", "hostname": "here"}', "null", "\0\0\0"]


@pytest.mark.parametrize("name", ["half.json", "half.json.18ea57588220ceab.tmp"])
@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_lock_is_removed_where_it_can_only_be_this_hosts(
    backend: Path, soon: None, name: str, text: str
) -> None:
    file = backend / ".pulumi" / FILES / name
    file.write_text(text)
    os.utime(file, (0, 0))
    if user_backend.backend() is None:
        stack_locks.release("dev")
        assert not file.exists()
        return
    with pytest.raises(SetupError, match=r"cannot be read: .*half\.json") as caught:
        stack_locks.release("dev")
    assert "`pulumi cancel --yes --stack dev`" in str(caught.value)
    assert file.exists()


@pytest.mark.parametrize("ahead", [0, 3600])
def test_a_damaged_lock_is_given_time_by_our_clock_too(
    backend: Path, soon: None, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """That of a file server may be ahead: its files seem never to grow old."""
    monkeypatch.setattr(stack_locks, "WRITTEN_S", 0.3)
    file = backend / ".pulumi" / FILES / "half.json"
    file.write_text("")
    os.utime(file, (time.time() + ahead,) * 2)
    with suppress(SetupError):
        stack_locks.release("dev")
    assert file.exists() is bool(user_backend.backend())


def test_a_lock_that_is_being_written_is_waited_for(backend: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = backend / ".pulumi" / FILES / "one.json.18ea57588220ceab.tmp"
    half.write_text("")
    pauses = []

    def renamed(seconds: float) -> None:
        pauses.append(seconds)
        half.unlink()
        lock(backend, os.getpid(), host=ELSEWHERE)

    monkeypatch.setattr(stack_locks.time, "sleep", renamed)  # type: ignore[attr-defined]
    assert stack_locks.locks("dev") == [], "the half has gone; it is never removed by us"
    assert len(pauses) == 1
    assert [each.host for each in stack_locks.locks("dev")] == [ELSEWHERE]


@pytest.mark.parametrize(
    "url", ["s3://bucket/trainstack", "https://api.pulumi.com", "gs://b", "postgres://host/db"]
)
def test_a_backend_that_is_no_folder_is_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(user_backend.BACKEND, url)
    assert user_backend.folder() is None
    stack_locks.release("dev")
    with stack_locks.held("dev") as behind:
        assert behind == {}


def test_the_held_lock_is_told_as_pulumi_tells_its_own(backend: Path) -> None:
    (backend / ".pulumi" / "stacks").mkdir()
    (backend / ".pulumi" / "meta.yaml").write_text("version: 1\n")
    with stack_locks.held("dev") as behind:
        (ours,) = stack_locks.locks("dev")
        assert json.loads(ours.file.read_text()).keys() == {"pid", "username", "hostname", "timestamp"}
        assert (ours.pid, ours.host) == (os.getpid(), socket.gethostname())
        assert ours.since
        assert abs(datetime.now(UTC) - ours.since) < timedelta(minutes=10)
        place, _, options = behind[user_backend.BACKEND].partition("?")
        assert options == "metadata=skip"
        shared = Path(place.removeprefix("file://")) / ".pulumi"
        assert {each.name: each.resolve() for each in shared.iterdir()} == {
            name: (backend / ".pulumi" / name).resolve() for name in ("stacks", "meta.yaml")
        }
    assert stack_locks.locks("dev") == []
    assert not shared.exists()
    assert list((backend / ".pulumi" / "locks").glob("*.json")) == []


HOLDER = """
import sys, time
from pathlib import Path
from toolchain.operating import stack_locks, user_backend
user_backend.STATE = Path(sys.argv[1])
user_backend.ROOT = user_backend.STATE.parent
with stack_locks.held("dev"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_an_edit_of_another_process_keeps_the_lock_until_it_is_killed(backend: Path, soon: None) -> None:
    """It is no pulumi, and yet alive."""
    words = [sys.executable, "-c", HOLDER, str(backend), "toolchain"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(SetupError, match=f"process {holder.pid} of"):
            stack_locks.release("dev")
        holder.kill()
    stack_locks.release("dev")
    assert stack_locks.locks("dev") == []


def test_of_two_that_write_at_once_both_let_go_and_try_again(
    backend: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a Pulumi that looked when we had not written yet."""
    (backend / ".pulumi" / "stacks").mkdir()
    written = write_whole
    others: list[Path] = []

    def at_once(target: Path, text: str) -> None:
        written(target, text)
        if not others:
            others.append(lock(backend, 1, host=ELSEWHERE))

    def look(stack: str) -> None:
        for each in others:
            each.unlink(missing_ok=True)

    monkeypatch.setattr(stack_locks, "write_whole", at_once)
    monkeypatch.setattr(stack_locks, "release", look)
    with stack_locks.held("dev"):
        assert [each.pid for each in stack_locks.locks("dev")] == [os.getpid()]


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("file:///shared/a%20b?metadata=skip", "/shared/a b"),
        ("file://~/states", str(Path.home() / "states")),
        ("file://~", str(Path.home())),
        ("file://./states", str(ROOT / "states")),
    ],
)
def test_the_folder_of_a_backend_is_read_as_pulumi_reads_it(
    monkeypatch: pytest.MonkeyPatch, url: str, folder: str
) -> None:
    monkeypatch.setenv(user_backend.BACKEND, url)
    assert user_backend.folder() == Path(folder)


def test_a_process_tells_when_it_began() -> None:
    started = processes.started(os.getpid())
    assert started is not None
    assert 0 < time.time() - started < 24 * 3600
    assert processes.started(dead_process()) is None
