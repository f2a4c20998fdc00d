"""Commands, errors and steps that run side by side."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from infra import agreed
from toolchain import progress, steps
from toolchain.parallel import Jobs
from toolchain.steps import SetupError, run, step


def test_a_failed_command_shows_its_own_last_lines_only(tmp_path: Path) -> None:
    run(["sh", "-c", "echo earlier"], log=tmp_path / "log")
    with pytest.raises(SetupError) as failure:
        run(["sh", "-c", "seq 100; exit 3"], log=tmp_path / "log")
    text = str(failure.value)
    assert "(3)" in text
    assert "| 100" in text
    assert "| 80\n" not in text
    assert "earlier" not in text
    assert failure.value.fix == f"see {tmp_path / 'log'}"


def test_a_builder_that_the_user_chose_is_not_for_our_own_dockerfiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(agreed.BUILDKIT, "1")
    run(["sh", "-c", f'test -z "${agreed.BUILDKIT}"'], log=tmp_path / "log")
    run(["sh", "-c", f'test -n "${agreed.BUILDKIT}"'], log=tmp_path / "log", unset=())


def long_command(folder: Path) -> list[str]:
    """Leaves a file `finished` in `folder` unless it is ended within ten minutes."""
    return [
        sys.executable,
        "-c",
        "import time, sys; time.sleep(600); open(sys.argv[1], 'w')",
        str(folder / "finished"),
    ]


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="longer than 0 s"):
        run(long_command(tmp_path), log=tmp_path / "log", timeout=0.2)
    assert not (tmp_path / "finished").exists()


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot run no-such-program"):
        run(["no-such-program"], log=tmp_path / "log")


def test_a_long_step_says_what_it_does_and_for_how_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "BEAT_S", 0.1)
    monkeypatch.setattr(steps, "_board", progress.Board())
    with step("building") as building:
        building.note("compiling")
        time.sleep(0.35)
    said = capsys.readouterr().err
    assert re.search(r"… building: compiling \(\d+ s\)", said)
    assert re.search(r"✓ building \(\d+\.\d s\)", said)
    assert [name for name, _ in steps.phase_times()] == ["building"]


def test_jobs_wait_for_each_other() -> None:
    with Jobs() as jobs:
        first = jobs.start(lambda: 20)
        second = jobs.start(lambda: first.result() + 1)
    assert second.result() == 21


def test_the_first_failure_ends_the_others_and_is_the_one_reported(tmp_path: Path) -> None:
    def fail() -> None:
        time.sleep(0.2)
        raise SetupError("the cause")

    def work() -> None:
        with Jobs() as jobs:
            slow: Future[None] = jobs.start(lambda: run(long_command(tmp_path), log=tmp_path / "log"))
            jobs.start(slow.result)
            jobs.start(fail)

    with pytest.raises(SetupError, match="the cause"):
        work()
    assert not (tmp_path / "finished").exists()


def test_an_interrupt_ends_running_commands(tmp_path: Path) -> None:
    def work() -> None:
        with Jobs() as jobs:
            jobs.start(lambda: run(long_command(tmp_path), log=tmp_path / "log"))
            time.sleep(0.2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert not (tmp_path / "finished").exists()


def test_a_clean_up_runs_commands_after_a_failure(tmp_path: Path) -> None:
    def work() -> None:
        with Jobs() as jobs:
            jobs.start(lambda: run(["false"], log=tmp_path / "log"))

    with pytest.raises(SetupError, match="failed"):
        work()
    run(["touch", str(tmp_path / "cleaned")], log=tmp_path / "log")
    assert (tmp_path / "cleaned").exists()


def test_a_pipe_moves_all_of_it(tmp_path: Path) -> None:
    steps.pipe(
        ["seq", "100000"],
        ["sh", "-c", "test $(wc -l) = $lines"],
        log=tmp_path / "log",
        env={"lines": "100000"},
    )


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (["yes"], ["sh", "-c", "head -c 1 >/dev/null; echo no room >&2; exit 3"], "no room"),
        (["sh", "-c", "echo no such image >&2; exit 1"], ["cat"], r"\(1, 0\)\n.*no such image"),
        (["yes"], ["no-such-program"], "cannot run .*no-such-program"),
        (["no-such-program"], ["cat"], "cannot run .*no-such-program"),
    ],
)
def test_a_broken_pipe_ends_with_its_cause(
    tmp_path: Path, source: list[str], target: list[str], message: str
) -> None:
    """In a process of its own: one that keeps the read end open waits for its endless writer for ever."""
    log = str(tmp_path / "log")
    code = f"import pathlib; from toolchain import steps; steps.pipe({source!r}, {target!r}, log=pathlib.Path({log!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert re.search(message, done.stderr), done.stderr


def test_stopping_ends_both_ends_of_a_pipe(tmp_path: Path) -> None:
    def work() -> None:
        with Jobs() as jobs:
            jobs.start(lambda: steps.pipe(["yes"], ["sleep", "30"], log=tmp_path / "log"))
            time.sleep(0.5)
            raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() - start < 10


def test_a_result_is_told_at_the_end_of_its_step(capsys: pytest.CaptureFixture[str]) -> None:
    with step("asking") as asking:
        asking.note("one")
        asking.conclude("none is there")
    assert re.fullmatch(r" ✓ asking: none is there \(\d+\.\d s\)\n", capsys.readouterr().err)


def test_one_line_tells_of_all_that_runs_and_the_pauses_grow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = progress.Board()
    names = ["first", "second", "third", "fourth", "fifth"]
    told.running = [progress.Step(name, told) for name in names]
    times: list[float] = []
    clock = 0.0
    monkeypatch.setattr("toolchain.progress.time.monotonic", lambda: clock)
    told.pause, told.next_beat = progress.BEAT_S, progress.BEAT_S
    for second in range(1500):
        clock = float(second)
        told._draw()
        if said := capsys.readouterr().err:
            times.append(clock)
            assert re.fullmatch(r" … first \(-?\d+ s\), second \(.* s\), third \(.* s\), 2 more\n", said)
    assert times == [15, 45, 105, 225, 465, 945, 1425]


@pytest.mark.parametrize(
    ("terminal", "variables", "live"),
    [(True, {}, True), (True, {"CI": "true"}, False), (True, {"TERM": "dumb"}, False), (False, {}, False)],
)
def test_a_live_view_is_for_somebody_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, variables: dict[str, str], live: bool
) -> None:
    monkeypatch.delenv("CI", raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("toolchain.progress.sys.stderr.isatty", lambda: terminal)
    assert progress.is_terminal() is live
